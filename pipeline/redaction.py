"""No secret leaves by a message: URLs and the texts of exceptions lose their credentials."""

import re

_ADVICE = "(?!user:password@)"  # what messages say to write
_CREDENTIALS = re.compile(rf"(?P<scheme>[a-z][a-z0-9+.-]*://){_ADVICE}[^\s/?#]*@", re.IGNORECASE)
# A password may hold "/", "?" or "#" unescaped; the address libav was given then still shows it.
_CARELESS = re.compile(rf"(?P<scheme>rtsps?:/{{1,2}}){_ADVICE}[^\s@/]*:[^\s]*@", re.IGNORECASE)
# A URL that was taken for a path has lost a slash.
_COLLAPSED = re.compile(r"(?P<scheme>(?:rediss?|unix|https?|ftp):/)[^\s/?#]*@", re.IGNORECASE)
# Its scheme may be missing, or misspelt.
_BARE = re.compile(rf"(?<![^\s:/@'\"]){_ADVICE}[^\s:/@'\"]*:(?!/)[^\s\"]*@")
_SECRET_QUERY = re.compile(
    r"(?P<key>[?&](?:user(?:name)?|usr|login|pass(?:word|wd)?|pwd|token|auth|key|secret)=)[^&\s'\"]+",
    re.IGNORECASE,
)


def redact(text: object) -> str:
    """The text on one line; ``rtsp://user:secret@host/path`` becomes ``rtsp://***@host/path``."""
    line = " ".join(str(text).split())
    line = _CARELESS.sub(r"\g<scheme>***@", line)
    line = _COLLAPSED.sub(r"\g<scheme>***@", line)
    line = _CREDENTIALS.sub(r"\g<scheme>***@", line)
    line = _BARE.sub("***@", line)
    return _SECRET_QUERY.sub(r"\g<key>***", line)
