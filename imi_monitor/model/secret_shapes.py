"""The shapes of secrets: prefixes of vendors' tokens, and patterns whose group `s` is the secret itself.

Each pattern has signs: case-folded words of which a text must hold one before the pattern is tried. Repetitions are bounded,
so that no text makes a search quadratic.
"""

from __future__ import annotations

# -- tokens with a prefix: prefix -> the least number of characters that follow ----------------------------------------

# Prefixes that nothing else has.
PREFIXES: dict[str, int] = {
    **dict.fromkeys(("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"), 16),
    **dict.fromkeys(("glpat-", "glptt-", "gldt-", "glft-", "glrt-", "glrtr-", "glsoat-", "glcbt-", "glimt-"), 16),
    **dict.fromkeys(("glagent-", "gloas-", "glffct-", "GR1348941"), 16),
    **dict.fromkeys(("xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxe.", "xoxo-", "xoxp-", "xoxr-", "xoxs-"), 10),
    **dict.fromkeys(("xapp-", "sk-ant-", "sk-proj-", "sk-svcacct-", "sk-or-", "sk-lf-"), 16),
    **dict.fromkeys(("sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "rk_prod_", "whsec_"), 10),
    **dict.fromkeys(("dop_v1_", "doo_v1_", "dor_v1_", "dckr_pat_", "dckr_oat_"), 16),
    **dict.fromkeys(("dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."), 20),
    **dict.fromkeys(("shpat_", "shpca_", "shppa_", "shpss_", "shptka_"), 16),
    **dict.fromkeys(("SG.", "xkeysib-", "xsmtpsib-", "mlsn.", "pubkey-"), 20),
    **dict.fromkeys(("hvs.", "hvb.", "hvr.", "ops_eyJ", "AGE-SECRET-KEY-1", "tskey-"), 16),
    **dict.fromkeys(("sntrys_", "sntryu_", "glc_", "glsa_", "NRAK-", "NRII-", "NRJS-", "NRAA-", "NRAL-", "NRIQ-"), 16),
    **dict.fromkeys(("dt0c01.", "dt0s01.", "dt0s16.", "PMAK-", "PMAT-", "ntn_", "lin_api_", "lin_oauth_"), 20),
    **dict.fromkeys(
        ("pscale_tkn_", "pscale_pw_", "pscale_oauth_", "sbp_", "sb_secret_", "napi_", "figd_", "figo_"), 20
    ),
    **dict.fromkeys(("rubygems_", "CLOJARS_", "pypi-AgE", "ATATT3", "ATCTT3"), 24),
    **dict.fromkeys(("api_org_", "gsk_", "xai-", "pplx-", "tvly-", "pcsk_", "lsv2_pt_", "lsv2_sk_"), 20),
    **dict.fromkeys(("csk-", "nvapi-", "jina_", "GOCSPX-", "ya29.", "1//0", "HRKU-", "rdme_", "pnu_"), 20),
    **dict.fromkeys(("FlyV1 fm1", "FlyV1 fm2", "fo1_", "nfp_", "duffel_test_", "duffel_live_", "EZAK", "EZTK"), 20),
    **dict.fromkeys(("FLWSECK_TEST-", "FLWSECK-", "shippo_live_", "shippo_test_", "rzp_live_", "rzp_test_"), 10),
    **dict.fromkeys(
        ("squ_", "sqp_", "sqa_", "sgp_", "sm_aat_", "sm_pat_", "sm_sat_", "sq0atp-", "sq0csp-", "sq0idp-"), 16
    ),
    **dict.fromkeys(("bkua_", "CCIPAT_", "CCIPRJ_", "CFPAT-", "mdb_sa_sk_", "dnkey-", "endr+", "p8e-", "tfp_"), 16),
    **dict.fromkeys(("AQVN", "AKCp", "cmVmd", "fio-u-", "sha256~", "AstraCS:", "phx_", "pat_live_", "vcp_"), 30),
    **dict.fromkeys(("s-s4t2ud-", "s-s4t2af-", "tk-us-", "ABSK", "signkey-prod-", "signkey-test-", "crsr_"), 30),
}
# Prefixes that ordinary words have, too: what follows must look random.
WORDLIKE: dict[str, int] = {
    **dict.fromkeys(("sk-", "sk_", "key-", "sl.", "b_", "re_", "fc-", "pa-", "sess-", "secret_", "key_", "fw_"), 20),
    **dict.fromkeys(("npm_", "pypi-", "hf_", "r8_", "dapi", "oy2", "ATBB", "ATOA", "4b1d", "pul-", "ico-"), 20),
    **dict.fromkeys(("EAA", "LTAI", "API-", "s."), 16),
}

# -- names under which a secret is set ---------------------------------------------------------------------------------

_KEYS = (
    "api app application access private secret auth signing encryption account shared master session service client license"
    " webhook"
)


def _by_first_letter(words: list[str]) -> str:
    """Alternatives grouped by their first letters: a search then skips all other letters at once."""
    groups: dict[str, list[str]] = {}
    for word in words:
        groups.setdefault(word[0], []).append(word[1:])
    return "|".join(f"{first}(?:{'|'.join(rests)})" for first, rests in groups.items())


_NAMES = [
    *("passw(?:or)?d", "passwd", "passphrase", "passcode", "token", "secret", "credentials?"),
    *(rf"{word}[_\-. ]?(?:access[_\-]?)?key" for word in _KEYS.split()),
    *("authkey", "signature"),
]
NAME = f"(?:{_by_first_letter(_NAMES)})"
# What may stand between such a word and the sign.
_SUFFIX = r"(?:[_\-.]?(?:value|string|text|key|base64|b64|data|hash|env|old|new|prod|dev|test|live|\d{1,3}))?"
NAMES = ("passw", "passphrase", "passcode", "token", "secret", "credential", "signature", "key")
_SHORT = ("pwd", "_pass", "_key", "_auth", "_pat", "_psk", "_cred", "_dsn", "_pin", "_otp")
_QUOTE = r"(?:\\{0,3}['\"])"
_VALUE = r"(?P<s>[^\s'\"\\,;&|<>]{1,2048})"


def _uuid() -> str:
    return r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


# The judgement of a match that is not certain: see `redact`.
NAMED = "named"  # the value of a named setting: no code, no placeholder
RANDOM = "random"  # must look random
HEADER = "header"  # no placeholder
SHORT = "short"  # a short option: `docker login -p`, but not `docker run -p`
SET = "set"  # `set NAME VALUE`: the name must be telling

# (signs, pattern, judgement)
SHAPES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    # -- addresses. In an http URL everything before the host is redacted, because the user may be a token; in others only
    # the password. It ends at the last @ of the word, because a password may hold / and @; `host:8080/a@b` has none.
    (
        ("@",),
        r"(?i)https?://(?P<s>[^\s/:'\"]{0,256}:(?!\d{1,5}(?:/|$))[^\s'\"]{0,1024}|[^\s/'\"]{1,1024})@",
        "",
    ),
    (("@",), r"://[^\s/:'\"]{0,256}:(?!\d{1,5}(?:/|$))(?P<s>[^\s'\"]{0,1024})@", ""),
    (
        ("/webhook", "hooks.slack.com", "hooks.zapier.com"),
        r"(?i)(?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks/\d{1,24}"
        r"|webhook\.office\.com/webhookb2|hooks\.zapier\.com/hooks/catch)/(?P<s>[\w@%./\-]{10,512})",
        "",
    ),
    (
        ("?", "&"),
        r"(?i)[?&](?:sig|auth|key|code|sign|x-amz-(?:signature|credential|security-token))=(?P<s>[^&\s'\"]{6,2048})",
        RANDOM,
    ),
    # -- headers
    (
        ("authorization",),
        r"(?i)authorization\\?['\"]?[ \t]{0,8}[:=][ \t]{0,8}\\?['\"]?"
        r"(?:(?:basic|bearer|token|digest|apikey|bot|aws4-hmac-sha256)[ \t]{1,8})?(?P<s>[^\s'\"\\]{1,4096})",
        HEADER,
    ),
    (("bearer",), r"(?i)\bbearer[ \t]{1,8}(?P<s>[A-Za-z0-9._~+/=\-]{12,4096})", RANDOM),
    (("cookie",), r"(?i)\b(?:set-)?cookie\\?['\"]?[ \t]{0,8}:[ \t]{0,8}\\?['\"]?(?P<s>[\w.\-]{1,128}=[^'\"\r\n\\]{1,4096})", ""),
    # -- names: assignments, JSON, YAML, XML, options, SQL, .netrc, prompts
    (
        NAMES,
        rf"(?i){NAME}{_SUFFIX}(?P<sep>{_QUOTE}?\]?[ \t]{{0,8}}(?::=|=>|[:=]{{1,2}})[ \t]{{0,8}}[bfru]?)(?:\\{{0,3}}(?P<q>['\"]))"
        r"(?P<s>(?:(?!(?P=q)|\\{1,3}['\"]).){1,2048})",
        NAMED,
    ),
    (
        NAMES,
        rf"(?i){NAME}{_SUFFIX}(?P<sep>{_QUOTE}?\]?(?:[ \t]{{0,8}}(?::=|=>|==?)[ \t]{{0,8}}|[ \t]{{0,4}}:[ \t]{{1,8}}))"
        rf"(?!['\"\\=]){_VALUE}(?P<tail>[^\n]{{0,3}})",
        NAMED,
    ),
    (
        _SHORT,
        r"(?:\b[A-Z][A-Z0-9_]{0,60}_(?:KEY|PASS|PWD|AUTH|PAT|PSK|CREDS?|DSN|PIN|OTP)|(?i:\bpwd|_pass|_auth))"
        rf"(?P<sep>['\"]?[ \t]{{0,4}}[:=][ \t]{{0,4}})['\"]?{_VALUE}(?P<tail>[^\n]{{0,3}})",
        NAMED,
    ),
    (NAMES, rf"(?i)<[\w:.\-]{{0,40}}{NAME}[\w.\-]{{0,20}}>(?P<s>[^<\s]{{1,1024}})</", NAMED),
    (
        (*NAMES, "-pass"),
        rf"(?i)(?<![\w-])--?(?:[a-z0-9]{{1,20}}[-_.]){{0,4}}(?:{NAME}|pass)(?P<sep>[ \t]{{1,4}}){_QUOTE}?"
        r"(?P<s>(?!-)[^\s'\"\\|;&<>]{1,2048})",
        NAMED,
    ),
    (
        ("passw", "identified by"),
        r"(?i)\b(?:password|identified[ \t]{1,4}by(?:[ \t]{1,4}password)?)(?P<sep>[ \t]{1,4})\\?'(?P<s>[^'\\]{1,512})",
        NAMED,
    ),
    (("login ", "machine "), r"(?i)\blogin[ \t]{1,8}\S{1,256}\s{1,8}password[ \t]{1,8}(?P<s>\S{1,512})", ""),
    (
        (*NAMES, "pin", "one-time code"),
        r"(?i)(?:\[sudo\] password|(?:enter |repeat |retype |new |old |current |your |'s )(?:\w{1,20} ){0,2}?"
        r"(?:password|passphrase|pin|secret|token|one-time code)|(?:password|passphrase))"
        r"(?: (?:for|of|to) [^\r\n]{1,120}?)?[ \t]{0,2}:(?P<sep>[ \t]{1,4})(?P<s>[^\s'\"]{3,512})(?P<tail>[^\n]{0,3})",
        NAMED,
    ),
    (
        ("set ",),
        r"(?i)\b(?:set -\w{1,4}|configure set|config set|setx|secrets? set)"
        r"[ \t]{1,4}(?P<name>[\w.:/\-@]{1,128})(?P<sep>[ \t]{1,4})['\"]?(?P<s>[^\s'\"]{6,2048})",
        SET,
    ),
    # -- options of programs that take a password in short form
    (
        ("curl", "wget", "http", "-u", "--user", "--proxy-user"),
        r"(?<![\w-])(?:-u[ \t]{0,4}|--(?:proxy-)?user(?:[ \t]{1,4}|=))['\"]?[\w.@%+\-$]{1,128}:(?P<s>[^\s'\"]{1,1024})",
        NAMED,
    ),
    (
        ("mysql", "mariadb", "7z"),
        r"\b(?:mysql|mysqldump|mysqladmin|mysqlimport|mariadb|mariadb-dump|mariadb-admin|7za?)\b"
        r"[^\r\n|;&]{0,200}?[ \t]-p['\"]?(?P<s>[^\s'\"]{1,512})",
        NAMED,
    ),
    (
        ("login", "sshpass", "redis-cli", "mongo", "sqlcmd", "ldap", "bcp", "zip", "unrar", "smbclient", "keytool", "htpasswd"),
        r"\b(?:(?:docker|podman|nerdctl|buildah|skopeo|helm|oc|az|cf|registry|crane|oras|argocd|mongo[a-z]{0,8})\b"
        r"[^\r\n|;&]{0,200}?[ \t]-p"
        r"|sshpass\b[^\r\n|;&]{0,40}?[ \t]?-p"
        r"|redis-cli\b[^\r\n|;&]{0,160}?[ \t]-a|(?:sqlcmd|bcp|zip|unzip)\b[^\r\n|;&]{0,160}?[ \t]-P"
        r"|ldap\w{1,12}\b[^\r\n|;&]{0,200}?[ \t]-w|smbclient\b[^\r\n|;&]{0,160}?-U[ \t]{0,4}[\w\\.]{1,64}%"
        r"|htpasswd\b[^\r\n|;&]{0,60}?-\w{0,4}b\w{0,4}[ \t]{1,4}\S{1,128}[ \t]{1,4}\S{1,64}"
        r"|keytool\b[^\r\n|;&]{0,200}?-(?:store|key)pass)[ \t]{0,4}['\"]?(?P<s>[^\s'\"]{1,512})",
        SHORT,
    ),
    (("pass:",), r"(?<![\w-])-?pass(?:in|out)?[ \t]{1,4}pass:(?P<s>[^\s'\"]{1,512})", NAMED),
    (
        ("-stdin", "--with-token", "sudo -s", "chpasswd"),
        r"\b(?:echo|printf|printf '%s')[ \t]{1,4}(?:-n[ \t]{1,4})?['\"]?(?P<s>[^\s'\"|]{1,2048})['\"]?[ \t]{0,4}\|[^\r\n]{0,80}?"
        r"(?:-stdin|--with-token|sudo[ \t]{1,4}-S|chpasswd)",
        NAMED,
    ),
    # -- keys and tokens without a plain prefix
    (("private key",), r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?P<s>[A-Za-z0-9+/=\s\\,.:()-]{1,16384})", ""),
    (("eyj",), r"(?<![A-Za-z0-9])(?P<s>eyJ[A-Za-z0-9_-]{8,4096}\.[A-Za-z0-9_-]{4,8192}(?:\.[A-Za-z0-9_-]{0,4096})?)", ""),
    (("aiza",), r"(?<![A-Za-z0-9])AIza(?P<s>[A-Za-z0-9_-]{30,60})", ""),
    (
        ("akia", "asia", "abia", "acca", "a3t"),
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])(?P<s>[A-Z0-9]{16})(?![A-Za-z0-9])",
        "",
    ),
    (("sk",), r"(?<![A-Za-z0-9])SK(?P<s>[0-9a-f]{32})(?![A-Za-z0-9])", ""),
    (("q~",), r"(?<![A-Za-z0-9])(?P<s>[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34})", ""),
    ((":a",), r"(?<![A-Za-z0-9])(?:bot)?\d{5,16}:(?P<s>A[A-Za-z0-9_-]{34,35})(?![A-Za-z0-9_-])", ""),
    (("-us",), r"(?<![A-Za-z0-9])(?P<s>[0-9a-f]{32}-us\d{1,2})\b", ""),
    (("pat",), r"(?<![A-Za-z0-9])pat(?P<s>[A-Za-z0-9]{14}\.[0-9a-f]{64})", ""),
    (("pat-",), rf"(?i)\bpat-(?:na|eu|ap)\d-(?P<s>{_uuid()})", ""),
    (("api-", "sdk-", "mob-"), rf"\b(?:api|sdk|mob)-(?P<s>{_uuid()})", ""),
    (("access-",), rf"\baccess-(?:sandbox|development|production)-(?P<s>{_uuid()})", ""),
    ((".atlasv1.",), r"(?P<s>[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,80})", ""),
    (("v1.0-",), r"\bv1\.0-(?P<s>[0-9a-f]{24}-[0-9a-f]{100,160})", ""),
    (("a3-",), r"\bA3-(?P<s>[A-Z0-9]{6}-(?:[A-Z0-9]{5,11}-){2,4}[A-Z0-9]{5,11})", ""),
    (("live_", "test_"), r"(?<![A-Za-z0-9_])(?:live|test)(?:_pub)?_(?P<s>[0-9a-f]{31,35})\b", ""),
    (("_mmk",), r"(?<![A-Za-z0-9])(?P<s>[A-Za-z0-9]{6}_[A-Za-z0-9]{29})_mmk", ""),
    (("t1.",), r"\bt1\.(?P<s>[A-Za-z0-9_-]{20,400}={0,2}\.[A-Za-z0-9_-]{86}={0,2})", ""),
    (("/",), r"(?<![A-Za-z0-9/])[0-2]/\d{10,20}(?:/\d{10,20})?:(?P<s>[0-9a-f]{32})\b", ""),
)  # fmt: skip
# Tokens of three parts that nothing but their lengths shows.
DISCORD = r"(?<![A-Za-z0-9])(?P<s>[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,45})(?![A-Za-z0-9_-])"
