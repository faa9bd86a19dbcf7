# The decision service: docs/howto/containers.md. The first stage builds, the second has no compiler and no pip cache.
FROM python:3.11.14-slim-bookworm AS build
WORKDIR /build
COPY requirements/build.txt requirements/service.txt requirements/
RUN python -m venv /opt/oddsmith \
    && /opt/oddsmith/bin/pip install --no-cache-dir --only-binary :all: -r requirements/service.txt \
    && pip install --no-cache-dir --only-binary :all: -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-build-isolation --no-deps --wheel-dir dist . \
    && /opt/oddsmith/bin/pip install --no-cache-dir --no-index --no-deps dist/*.whl

FROM python:3.11.14-slim-bookworm
RUN useradd --uid 10001 --create-home --home-dir /var/lib/oddsmith --shell /usr/sbin/nologin oddsmith
COPY --from=build /opt/oddsmith /opt/oddsmith
ENV PATH=/opt/oddsmith/bin:/usr/local/bin:/usr/bin:/bin
ENV ODDSMITH_HOST=0.0.0.0
ENV ODDSMITH_PORT=8000
ENV ODDSMITH_KEYS=/var/lib/oddsmith/keys.json
ENV NUMBA_CACHE_DIR=/var/lib/oddsmith/.cache/numba
USER 10001
WORKDIR /var/lib/oddsmith
VOLUME ["/var/lib/oddsmith"]
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["python", "-c", "import os, urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:' + os.environ['ODDSMITH_PORT'] + '/readyz', timeout=4)"]
ENTRYPOINT ["oddsmith"]
CMD ["serve", "/etc/oddsmith/news.toml"]
