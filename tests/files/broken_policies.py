"""Policy files that must be refused, each with part of the sentence that says why."""

TOP = 'arms = ["sports", "politics", "tech"]\n'
COLUMNS = '[schema]\nnumbers = ["age"]\ncategories = ["city"]\nbuckets = 3\n'
LINEAR = '[experts.lines]\nkind = "linear"\nfile = "lines.npz"\n'
ONNX = '[experts.net]\nkind = "onnx"\nfile = "net.onnx"\n'
PYTHON = '[experts.rules]\nkind = "python"\nfactory = "policy_file_rules:bank"\n'
AUTO = '[experts.learners]\nkind = "auto"\nsize = "small"\n'
OWN = "factory = 'policy_file_rules:policy'\n"
MADE = '[policy]\nkind = "python"\n'
BROKEN = [
    ("arms = [", "must be TOML"),
    (
        LINEAR,
        (
            "experts.lines.kind linear has weights (N, d) for arms that are passed in "
            "the call"
        ),
    ),
    ("arms = 'abc'\n" + LINEAR, "arms must be a sequence of names; got 'abc'"),
    ("arms = ['a', 'a']\n" + LINEAR, "arms must be distinct; got 'a' twice"),
    ("arms = []\n" + LINEAR, "arms must be at least 1 names; got 0"),
    (
        "name = 'Front page'\n" + TOP + LINEAR,
        "name must be 1 to 64 of a-z, 0-9, - and _",
    ),
    (
        "seed = -1\n" + TOP + LINEAR,
        "seed must be a whole number from 0 to 2^63 - 1; got -1",
    ),
    (
        "policy.gama = 0.1\n" + TOP + LINEAR,
        "policy.gama is not a key; did you mean gamma?",
    ),
    ("policy.gamma = 1.5\n" + TOP + LINEAR, "policy.gamma must be in [0, 1]; got 1.5"),
    (
        "policy.gamma = 'theory'\n" + TOP + LINEAR,
        "policy.gamma must be a number in [0, 1]; got str 'theory'",
    ),
    (
        "policy.gamma = { power = 1 }\n" + TOP + LINEAR,
        "policy.gamma.scale must be given",
    ),
    ("policy.eta = 0\n" + TOP + LINEAR, "policy.eta must be in (0, 1e+12]; got 0"),
    (
        "policy.loss = 'hinge'\n" + TOP + LINEAR,
        "policy.loss must be one of log, square; got 'hinge'",
    ),
    ("policy.share = 1.0\n" + TOP + LINEAR, "policy.share must be in [0, 1); got 1.0"),
    (
        "policy.discount = 0\n" + TOP + LINEAR,
        "policy.discount must be in (0, 1]; got 0",
    ),
    (
        "policy.prior = 0.5\n" + TOP + LINEAR,
        'policy.prior must be "tables", "uniform", a list or a table of shares',
    ),
    (
        "policy.prior = [0.5, 0.4]\n" + TOP + LINEAR,
        "policy.prior must sum to 1; got 0.9 over 2 experts",
    ),
    (
        "policy.prior = { line = 1 }\n" + TOP + LINEAR,
        "policy.prior.lines must be given; got nothing",
    ),
    (
        "policy.prior = { lines = 1, owl = 0 }\n" + TOP + LINEAR,
        "policy.prior.owl is not a key",
    ),
    (
        "policy.prior = { lines = 0.9 }\n" + TOP + LINEAR,
        "policy.prior must sum to 1; got 0.9 over 2 experts",
    ),
    (
        "policy.prior.lines = { 'lines 0' = 1 }\n" + TOP + LINEAR,
        "policy.prior.lines.lines 1 must be given",
    ),
    ("floors = 0.4\n" + TOP + LINEAR, "floors must sum to at most 1"),
    ("caps = 0.3\n" + TOP + LINEAR, "caps to at least 1"),
    ("floors = { art = 0.1 }\n" + TOP + LINEAR, "floors.art is not a key"),
    (
        "floors = 0.3\ncaps = { tech = 0.2 }\n" + TOP + LINEAR,
        "floors must not exceed caps",
    ),
    ("guard = 1\n" + TOP + LINEAR, "guard must be true or false; got 1"),
    ("timeout_ms = 50\n" + TOP + LINEAR, "timeout_ms requires guard = true"),
    (
        "guard = true\ntimeout_ms = 0\n" + TOP + LINEAR,
        "timeout_ms must be in [0.001, 1e+09]; got 0",
    ),
    (
        TOP + "reward = { low = 2, high = 1 }\n" + LINEAR,
        "reward.low must be below high",
    ),
    (TOP + "reward = { max = 2 }\n" + LINEAR, "reward.max is not a key"),
    (TOP + "schema = 'age'\n" + LINEAR, "schema must be a table [schema]; got 'age'"),
    (
        TOP + "schema = { numbers = 'age' }\n" + LINEAR,
        "schema.numbers must be a list of columns; got 'age'",
    ),
    (
        TOP + "schema = { buckets = 0 }\n" + LINEAR,
        "schema.buckets must be a whole number from 1 to 1,048,576; got 0",
    ),
    (
        TOP + "schema = { numbers = ['a'], categories = ['a'] }\n" + LINEAR,
        "schema: a column must be",
    ),
    (TOP, "experts must be given, in tables [experts.NAME]; got none"),
    (
        TOP + "[experts]\n",
        "experts must have at least one table [experts.NAME]; got none",
    ),
    (TOP + "[experts.net]\nfile = 'net.onnx'\n", "experts.net.kind must be given"),
    (
        TOP + "[experts.net]\nkind = 'pickle'\n",
        "experts.net.kind must be one of onnx, linear, python, auto; got 'pickle'",
    ),
    (
        TOP + ONNX.replace("net.onnx", "gone.onnx"),
        "experts.net.file must be a readable file; got",
    ),
    (
        TOP + ONNX.replace("net.onnx", "text.onnx"),
        "experts.net: expert 'net' must be an ONNX model",
    ),
    (TOP + ONNX + "link = 'logistic'\n", "experts.net.link is not a key"),
    (
        TOP + ONNX + "clip = [0.9, 0.1]\n",
        (
            "experts.net.clip must be [low, high] with 0 <= low < high <= 1; got [0.9, "
            "0.1]"
        ),
    ),
    (
        TOP + ONNX + "arm_features = [[1.0]]\n",
        "experts.net.arm_features must have one row for each of 3 arms; got 1",
    ),
    (
        TOP + COLUMNS + ONNX.replace("net.onnx", "wide.onnx"),
        "experts.net.file must be a model of 4 numbers (the schema's)",
    ),
    (
        TOP + COLUMNS + ONNX.replace("net.onnx", "two-arms.onnx"),
        "must return 1 x 3 numbers, one per arm; got (1, 2)",
    ),
    (
        TOP + LINEAR.replace("lines.npz", "text.npz"),
        "experts.lines.file must be an .npz file",
    ),
    (
        TOP + LINEAR.replace("lines.npz", "objects.npz"),
        "experts.lines.file must be an .npz file",
    ),
    (
        TOP + LINEAR.replace("lines.npz", "stranger.npz"),
        "experts.lines.file must contain the arrays weights and",
    ),
    (
        TOP + LINEAR.replace("lines.npz", "names.npz"),
        "experts.lines: names must be 2 names; got 3",
    ),
    (
        TOP + LINEAR.replace("lines.npz", "nan.npz"),
        "experts.lines: weights must be finite",
    ),
    (
        TOP + LINEAR.replace("lines.npz", "two-arms.npz"),
        "experts.lines: weights must be for the 3 arms; got shape (2, 2, 4)",
    ),
    (
        TOP + COLUMNS + LINEAR.replace("lines.npz", "narrow.npz"),
        "experts.lines.file must be a model of 4 numbers",
    ),
    (
        TOP + LINEAR + "link = 'log'\n",
        "experts.lines.link must be one of logistic, identity, probit; got 'log'",
    ),
    (
        TOP + PYTHON.replace(":bank", ""),
        "experts.rules.factory must be module:name; got 'policy_file_rules'",
    ),
    (
        TOP + PYTHON.replace("rules:", "gone:"),
        "experts.rules.factory must name an importable module; got",
    ),
    (
        TOP + PYTHON.replace("rules:", "broken:"),
        "ModuleNotFoundError: No module named 'policy_file_absent'",
    ),
    (
        TOP + PYTHON.replace("policy_file_rules", "json"),
        "experts.rules.factory must name a module that no other module hides",
    ),
    (
        TOP + PYTHON.replace(":bank", ":bnak"),
        "experts.rules.factory must name a function; policy_file_rules has no bnak",
    ),
    (
        TOP + PYTHON.replace(":bank", ":constant"),
        "experts.rules.factory must name a function",
    ),
    (
        TOP + PYTHON.replace(":bank", ":number"),
        "experts.rules.factory must be a bank of experts",
    ),
    (
        TOP + PYTHON.replace(":bank", ":reversed_bank"),
        "experts.rules.factory must keep the arms",
    ),
    (
        TOP + PYTHON + "args = { size = 3 }\n",
        "policy_file_rules:bank raised TypeError: bank() got an unexpected keyword",
    ),
    (TOP + PYTHON + "args = 3\n", "experts.rules.args must be a table"),
    (
        TOP + AUTO.replace("small", "huge"),
        "experts.learners.size must be one of small, normal, large; got 'huge'",
    ),
    (
        TOP + AUTO + "rows_per_arm = 1\n",
        "experts.learners.rows_per_arm must be true or false; got 1",
    ),
    (
        TOP + AUTO + AUTO.replace("learners", "more"),
        "experts: names over all banks must be distinct",
    ),
    (
        TOP + MADE + "factory = 'policy_file_rules:number'\n",
        "policy: policy must have the methods",
    ),
    (TOP + MADE, "policy.factory must be given"),
    (TOP + MADE + "factory = 3\n", "policy.factory must be module:name; got 3"),
    (
        TOP + "[policy]\nfactory = 'x:y'\n" + LINEAR,
        'policy.factory is not a key here; it belongs to kind = "python"',
    ),
    (
        TOP + MADE + OWN + "gamma = 0.1\n",
        'policy.gamma is not a key here; it belongs to kind = "gts"',
    ),
    (TOP + LINEAR + MADE + OWN, 'experts must be left out with kind = "python"'),
    ("gamma = 0.1\n" + TOP + LINEAR, "gamma is not a key here; it belongs to [policy]"),
    ("budget_ms = 5\n" + TOP + LINEAR, "budget_ms is not a key"),
    (TOP + "[policy]\nkind = 'linUCB'\n", "policy.kind must be one of gts, tuned"),
    (TOP + "[policy]\nkind = 'linucb'\n", "policy.dim must be given; got nothing"),
    (TOP + COLUMNS + "[policy]\nkind = 'linucb'\ndim = 5\n", "policy.dim is not a key"),
    (TOP + "[policy]\nkind = 'linucb'\ndim = 2\nalpha = -1\n", "policy.alpha must be"),
    (
        TOP + "[policy]\nkind = 'linear_thompson'\ndim = 2\noptimist = 1\n",
        "policy.optimist must be true or false",
    ),
    (
        TOP + "[policy]\nkind = 'linear_thompson'\ndim = 2\ndirections = 1.5\n",
        "policy.directions must be a whole number",
    ),
    (
        TOP + LINEAR + "[policy]\nkind = 'exp4p'\n",
        "policy.steps must be given; got nothing",
    ),
    (
        TOP + LINEAR + "[policy]\nkind = 'squarecb'\nsharpness = 3\nsteps = 5\n",
        "policy.steps is not a key",
    ),
    (
        TOP + LINEAR + "[policy]\nkind = 'squarecb'\nsharpnes = 3\nsteps = 5\n",
        "did you mean sharpness?",
    ),
    (
        TOP + LINEAR + "[policy]\nkind = 'squarecb'\noracle = 'delphi'\nsteps = 5\n",
        "policy.oracle must be one of vovk",
    ),
    (TOP + LINEAR + "[policy]\nwindow = 0\n", "policy.window must be"),
    (
        TOP + AUTO + "joins = true\n[policy]\nkind = 'ucb1'\n",
        "experts with joins = true require a policy",
    ),
    (
        TOP + "[policy]\nkind = 'particles'\ndim = 2\nfamily = 'cubic'\n",
        "policy.family must be one of logistic",
    ),
]
