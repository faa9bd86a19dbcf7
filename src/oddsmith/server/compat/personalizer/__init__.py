"""The API of Azure AI Personalizer; see docs/reference/personalizer.md."""

__all__: list[str] = []
