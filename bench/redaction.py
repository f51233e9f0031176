"""Redaction: the share of generated secrets that is found, false positives on real output, and the time for a line.

Tokens are made from the vendors' published formats, with random characters, and put into the places where agents show them.
The lines without secrets come from programs that run here: git, pip, pytest, a build, npm if it is there.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import string
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence

from bench.common import PYTHON, Row
from imi_monitor.model.redact import redact

_EACH = 100  # tokens of each kind
_LINES = 10_000
_SETS = {
    "a": string.ascii_letters + string.digits,
    "A": string.ascii_uppercase + string.digits,
    "n": string.ascii_lowercase + string.digits,
    "h": string.hexdigits[:16],
    "H": string.hexdigits[:10] + string.hexdigits[16:],
    "u": string.ascii_letters + string.digits + "_-",
    "b": string.ascii_letters + string.digits + "+/",
    "d": string.digits,
    "l": string.ascii_letters,
}
# vendor -> formats; `{a36}` is 36 random characters of the set `a`
VENDORS: dict[str, tuple[str, ...]] = {
    "1password": ("ops_eyJ{b250}", "A3-{A6}-{A11}-{A5}-{A5}-{A5}"),
    "adobe": ("p8e-{n32}",),
    "age": ("AGE-SECRET-KEY-1{A58}",),
    "airtable": ("pat{a14}.{h64}",),
    "alibaba": ("LTAI{a20}",),
    "anthropic": ("sk-ant-api03-{u93}AA", "sk-ant-admin01-{u93}AA"),
    "artifactory": ("AKCp{a69}", "cmVmd{a59}"),
    "atlassian": ("ATATT3{u186}", "ATCTT3{u186}", "ATBB{a32}"),
    "aws": ("AKIA{A16}", "ASIA{A16}", "aws_secret_access_key = {b40}", "AWS_SESSION_TOKEN={b300}"),
    "azure": ("{a3}8Q~{a34}", "AccountName=x;AccountKey={b86}==;EndpointSuffix=core", "SharedAccessKey={b43}="),
    "buildkite": ("bkua_{h40}",),
    "circleci": ("CCIPAT_{a22}_{h40}",),
    "clojars": ("CLOJARS_{n60}",),
    "cloudflare": ("v1.0-{h24}-{h146}", "CLOUDFLARE_API_TOKEN={u40}"),
    "contentful": ("CFPAT-{u43}",),
    "databricks": ("dapi{h32}",),
    "datadog": ("DD_API_KEY={h32}", "dd-application-key: {h40}", "DD_APP_KEY={h40}"),
    "digitalocean": ("dop_v1_{h64}", "doo_v1_{h64}", "dor_v1_{h64}"),
    "discord": ("M{a25}.{a6}.{u38}", "https://discord.com/api/webhooks/{d18}/{u68}"),
    "docker": ("dckr_pat_{u27}", "dckr_oat_{u32}"),
    "doppler": ("dp.pt.{a43}", "dp.st.dev.{a43}"),
    "dynatrace": ("dt0c01.{A24}.{A64}",),
    "easypost": ("EZAK{a54}",),
    "facebook": ("EAAC{a120}",),
    "figma": ("figd_{u40}",),
    "flutterwave": ("FLWSECK_TEST-{h32}-X",),
    "fly": ("FlyV1 fm2_{b200}", "fo1_{u43}"),
    "github": ("ghp_{a36}", "gho_{a36}", "ghu_{a36}", "ghs_{a36}", "ghr_{a76}", "github_pat_{a22}_{a59}"),
    "gitlab": ("glpat-{u20}", "gldt-{u20}", "glrt-{u20}", "glptt-{h40}", "GR1348941{u20}", "glpat-{u27}.{h2}.{n9}"),
    "google": ("AIza{u35}", "ya29.{u150}", "GOCSPX-{u28}", "1//0{u60}"),
    "grafana": ("glc_{b100}", "glsa_{a32}_{h8}"),
    "groq": ("gsk_{a52}",),
    "hashicorp": ("hvs.{u90}", "hvb.{u150}", "{a14}.atlasv1.{u67}"),
    "heroku": ("HRKU-AA{u58}", "HEROKU_API_KEY={h8}-{h4}-{h4}-{h4}-{h12}"),
    "hubspot": ("pat-na1-{h8}-{h4}-{h4}-{h4}-{h12}",),
    "huggingface": ("hf_{l34}",),
    "jwt": ("eyJ{u40}.eyJ{u80}.{u43}",),
    "langsmith": ("lsv2_pt_{h32}_{h10}",),
    "launchdarkly": ("api-{h8}-{h4}-{h4}-{h4}-{h12}",),
    "linear": ("lin_api_{a40}",),
    "mailchimp": ("{h32}-us12",),
    "mailgun": ("key-{h32}",),
    "mapbox": ("sk.eyJ{u60}.{u22}",),
    "microsoft teams": ("https://x.webhook.office.com/webhookb2/{h8}-{h4}-{h4}-{h4}-{h12}@{h8}/IncomingWebhook/{h32}",),
    "mongodb": ("mongodb+srv://app:{a20}@cluster0.x.mongodb.net/db",),
    "netlify": ("nfp_{a36}",),
    "new relic": ("NRAK-{A27}", "NRII-{u32}"),
    "notion": ("ntn_{a46}", "secret_{a43}"),
    "npm": ("npm_{a36}", "//registry.npmjs.org/:_authToken={h8}-{h4}-{h4}-{h4}-{h12}"),
    "nuget": ("oy2{n43}",),
    "octopus": ("API-{A26}",),
    "openai": ("sk-{a48}", "sk-proj-{u74}T3BlbkFJ{u74}"),
    "openshift": ("sha256~{u43}",),
    "perplexity": ("pplx-{a48}",),
    "pinecone": ("pcsk_{a6}_{a63}",),
    "planetscale": ("pscale_tkn_{u43}", "pscale_pw_{u43}"),
    "postgres": ("postgres://app:{a16}@db:5432/x", "host=db user=app password={a16}"),
    "postman": ("PMAK-{h24}-{h34}",),
    "pulumi": ("pul-{h40}",),
    "pypi": ("pypi-AgEIcHlwaS5vcmc{u150}",),
    "readme": ("rdme_{n70}",),
    "replicate": ("r8_{a37}",),
    "rubygems": ("rubygems_{h48}",),
    "sendgrid": ("SG.{u22}.{u43}",),
    "sendinblue": ("xkeysib-{h64}-{a16}",),
    "sentry": ("sntrys_eyJ{b100}=_{b43}", "sntryu_{h64}"),
    "shippo": ("shippo_live_{h40}",),
    "shopify": ("shpat_{h32}", "shpss_{h32}"),
    "slack": (
        "xoxb-{d12}-{d13}-{a24}",
        "xoxp-{d12}-{d12}-{d12}-{h32}",
        "xapp-1-A{A9}-{d13}-{h64}",
        "https://hooks.slack.com/services/T{A10}/B{A10}/{a24}",
    ),
    "sonar": ("squ_{h40}", "sqp_{h40}"),
    "sourcegraph": ("sgp_{h16}_{h40}",),
    "square": ("sq0atp-{u22}", "sq0csp-{u43}"),
    "stripe": ("sk_live_{a24}", "rk_test_{a99}", "whsec_{a32}"),
    "supabase": ("sbp_{h40}", "sb_secret_{u31}"),
    "tailscale": ("tskey-auth-{a17}-{a32}",),
    "telegram": ("{d10}:A{u34}",),
    "twilio": ("SK{h32}", "TWILIO_AUTH_TOKEN={h32}"),
    "twitter": ("TWITTER_ACCESS_TOKEN_SECRET={a45}",),
    "vault": ("VAULT_TOKEN=s.{a24}",),
    "vercel": ("VERCEL_TOKEN={a24}",),
    "wandb": ("WANDB_API_KEY={h40}",),
    "xai": ("xai-{a80}",),
    "yandex": ("AQVN{u36}",),
}
# places of a secret that only the place shows: `§` is the secret
CONTEXTS: dict[str, tuple[str, ...]] = {
    "curl -u": ("curl -u ann:§ https://x/y", "curl -sS --user 'ann:§' https://x", "curl -uann:§ https://x"),
    "mysql -p": ("mysql -u root -p§ shop", "mysqldump --single-transaction -uroot -p'§' shop"),
    "docker login": (
        "docker login -u ann -p § registry.x",
        "podman login -p §",
        "echo § | docker login --password-stdin",
    ),
    "cookies": ("Cookie: session=§; theme=dark", "Set-Cookie: sid=§; HttpOnly", "curl -H 'Cookie: id=§' https://x"),
    "authorization": (
        "Authorization: Bearer §",
        "authorization: basic §",
        '"Authorization": "Token §"',
        "curl -H 'Authorization: Bearer §' https://x",
        "X-Api-Key: §",
        "Private-Token: §",
        "Proxy-Authorization: Basic §",
    ),
    "password prompts": (
        "Password: §",
        "[sudo] password for ann: §",
        "Enter passphrase for key '/home/ann/.ssh/id_rsa': §",
        "Password for 'https://ann@x': §",
        "ann@x's password: §",
    ),
    "connection strings": (
        "amqps://ann:§@mq:5671/v",
        "redis://:§@cache:6379/0",
        "Server=db;Database=x;User Id=sa;Password=§;Encrypt=yes",
        "jdbc:mysql://db/x?user=ann&password=§",
        "https://ann:§@x.example/r.git",
    ),
    "settings": (
        "password = '§'",
        'db_password: "§"',
        '{"password": "§"}',
        "secret_key: §",
        "CLIENT_SECRET=§",
        "export API_KEY=§",
        "<password>§</password>",
        "--password §",
        "--api-key=§",
        "api_key='§'",
        "set -x GITHUB_TOKEN §",
        "machine x login ann password §",
        'config["secret"] = "§"',
        '\\"token\\": \\"§\\"',
        "sshpass -p § ssh ann@x",
        "redis-cli -h x -a § ping",
        "ALTER USER ann WITH PASSWORD '§';",
        "CREATE USER ann IDENTIFIED BY '§'",
    ),
}
PLACES = (
    "§",
    "the token is §.",
    'export TOKEN_X="§"',
    '{"value": "§", "n": 1}',
    "\x1b[31m§\x1b[0m",
    "\x1b[1mkey\x1b[0m: \x1b[38;5;9m§\x1b[0m ok",
    "deploy --with § --now",
)


def run() -> Iterator[Row]:
    shares = _vendor_shares()
    worst = min(shares, key=lambda name: shares[name])
    yield Row(
        f"secrets of {len(shares)} kinds found", 100 * sum(shares.values()) / len(shares), "%", budget=99, at_least=True
    )
    yield Row(f"the least found kind: {worst}", 100 * shares[worst], "%", budget=99, at_least=True)
    lines = _ordinary_lines()
    wrong = [line for line in lines if redact(line) != line]
    yield Row(f"false positives in {len(lines):,} lines", 100 * len(wrong) / len(lines), "%", budget=0.1)
    if os.environ.get("SHOW"):
        print(*(f"   {line[:160]}\n   {redact(line)[:160]}" for line in wrong[:60]), sep="\n")
    yield Row("a line without secrets", _microseconds(lines), "us", budget=20)
    secret = [_place(format, place) for each in VENDORS.values() for format in each for place in PLACES]
    yield Row("a line with a secret", _microseconds(secret), "us", budget=20)


def _vendor_shares() -> dict[str, float]:
    random.seed(14)
    shares = {}
    for vendor, formats in VENDORS.items():
        found = total = 0
        for format in formats:
            for number in range(_EACH):
                token, secret = make_token(format)
                total += 1
                found += _hidden(PLACES[number % len(PLACES)].replace("§", token), secret)
        shares[vendor] = found / total
    for name, places in CONTEXTS.items():
        found = total = 0
        for place in places:
            for number in range(_EACH):
                secret, _ = make_token(("{a12}", "{a24}", "{h32}", "{u16}")[number % 4])
                total += 1
                found += _hidden(place.replace("§", secret), secret)
        shares[name] = found / total
    return shares


def _place(format: str, place: str) -> str:
    return place.replace("§", make_token(format)[0])


def make_token(format: str) -> tuple[str, str]:
    """A token, and the end of its longest random part."""
    first, *parts = format.split("{")
    token, longest = first, ""
    for spec, _, rest in (part.partition("}") for part in parts):
        made = "".join(random.choices(_SETS[spec[0]], k=int(spec[1:])))
        token += made + rest
        longest = max(longest, made, key=len)
    return token, longest if len(parts) == 1 and len(longest) < 16 else longest[-12:]


def _hidden(text: str, secret: str) -> bool:
    return secret not in redact(text)


def _ordinary_lines() -> list[str]:
    """Lines of programs that run here, none of them with a secret."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="imi-bench-") as folder:
        for argv in _programs(folder):
            done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
            found = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            lines += found[:4000]
    return (lines * (_LINES // max(1, len(lines)) + 1))[: max(_LINES, len(lines))] if len(lines) < _LINES else lines


def _programs(folder: str) -> Iterator[Sequence[str]]:
    yield ["git", "log", "--stat", "-n", "400"]
    yield ["git", "log", "--graph", "--decorate", "--format=fuller", "-n", "300"]
    yield [PYTHON, "-m", "pip", "install", "--dry-run", "--verbose", "--no-index", "--no-build-isolation", "."]
    yield [PYTHON, "-m", "pip", "list", "--verbose"]
    yield [PYTHON, "-m", "pip", "debug", "--verbose"]
    yield [PYTHON, "-m", "pytest", "-n0", "-v", "-p", "no:cacheprovider", "tests/model", "tests/fast"]
    yield [PYTHON, "-m", "pytest", "-n0", "--collect-only", "-q", "tests"]
    yield [PYTHON, "-v", "-c", "import asyncio, sqlite3, textual.app"]
    yield [PYTHON, "-m", "compileall", "-f", "imi_monitor"]
    yield [PYTHON, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder]
    if shutil.which("npm"):
        yield ["npm", "ls", "--global", "--all"]
        yield ["npm", "help-search", "config"]
        yield ["npm", "config", "ls", "--long"]
    if shutil.which("gcc"):
        yield ["gcc", "-v", "-E", "-x", "c", os.devnull]
        yield ["gcc", "--help=common", "-v"]


def _microseconds(lines: Sequence[str]) -> float:
    """The median of nine rounds, for one line."""
    times = []
    for _ in range(9):
        begun = time.process_time()
        for line in lines:
            redact(line)
        times.append(1e6 * (time.process_time() - begun) / len(lines))
    return sorted(times)[4]


def report() -> str:
    """The share of each kind as JSON: `python -c "import bench.redaction as r; print(r.report())"`."""
    return json.dumps(_vendor_shares(), indent=1)
