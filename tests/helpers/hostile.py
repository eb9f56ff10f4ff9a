"""Texts that steer a terminal, reorder its text or forge a line."""

from __future__ import annotations

ESC, CSI, OSC, DCS, ST, BELL = "\x1b", "\x9b", "\x9d", "\x90", "\x9c", "\x07"

SEQUENCES = (
    # operating system commands: title, link, clipboard, colours, notification, picture
    *(f"{ESC}]{number};hostile{BELL}" for number in (0, 1, 2, 7, 9)),
    *(f"{ESC}]{number};hostile{ESC}\\" for number in (0, 1, 2, 7, 9)),
    f"{ESC}]8;;file:///etc/passwd{ESC}\\link{ESC}]8;;{ESC}\\",
    f"{ESC}]8;id=1;javascript:alert(1){BELL}link{ESC}]8;;{BELL}",
    *(f"{ESC}]52;{kind};aG9zdGlsZQ=={BELL}" for kind in "cps"),
    *(f"{ESC}]52;{kind};?{ESC}\\" for kind in "cps"),
    *(f"{ESC}]{number};?{BELL}" for number in (4, 10, 11, 12, 104, 110)),
    f"{ESC}]4;1;rgb:00/00/00{BELL}",
    f"{ESC}]50;font{BELL}",
    f"{ESC}]133;A{BELL}",
    f"{ESC}]777;notify;a;b{BELL}",
    f"{ESC}]1337;File=inline=1:AAAA{BELL}",
    f"{OSC}0;hostile{ST}",
    f"{OSC}52;c;aG9zdGlsZQ=={ST}",
    # control sequences: colours, cursor, erasing, reports that are typed as input, modes
    *(f"{ESC}[{rest}" for rest in ("35;45m", "38;2;1;2;3m", "8m", "5m", "7m", "0;30;40m")),
    *(f"{ESC}[{rest}" for rest in ("9A", "9B", "9C", "9D", "9E", "9F", "9G", "3;3H", "3;3f", "9d")),
    *(f"{ESC}[{rest}" for rest in ("0J", "3J", "1K", "9L", "9M", "9P", "9X", "9@", "9S", "9T")),
    *(f"{ESC}[{rest}" for rest in ("6n", "5n", "c", ">c", "=c", "21t", "14t", "18t", "x", "?6n")),
    *(f"{ESC}[{rest}" for rest in ("?1049h", "?1049l", "?47h", "?1000h", "?2004h", "?7l", "?5h")),
    *(f"{ESC}[{rest}" for rest in ("20h", "4h", "9;9r", "!p", "s", "u", "0 q", "9b", "22;0t")),
    *(f"{CSI}{rest}" for rest in ("35;45m", "3J", "9A", "6n", "?1049h")),
    f"{ESC}[{'9' * 400}m",
    f"{ESC}[",
    # other escape sequences: device control, messages, keys, reset, character sets, cursor
    *(f"{ESC}{kind}hostile{ESC}\\" for kind in "P_^Xk"),
    f"{ESC}P$q q{ESC}\\",
    f"{ESC}P+q544e{ESC}\\",
    f"{ESC}Pq#0;2;0;0;0#0~~@@{ESC}\\",
    *(f"{kind}hostile{ST}" for kind in ("\x90", "\x98", "\x9e", "\x9f")),
    *(f"{ESC}{rest}" for rest in (*"c78DMEH=>n", "(0", "#8", "%@")),
    ESC,
    # single control characters
    *"\x00\x01\x05\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x13\x18\x1a\x1c\x1d\x1e\x1f\x7f",
    *"\x80\x84\x85\x8d\x8e\x8f\x90\x9a\x9b\x9c\x9d\x9f",
    "good\b\b\b\bevil",
    "good\revil",
    "good\r",
    "\r\x1b[2Kclearhead: all is well",
    # the order of characters, and line breaks that are none in ASCII
    *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029",
    "\u202egnp.exe",
)
"""Without line breaks and tabs, so that each can be a line, a cell, a label or an argument."""

HOSTILE = tuple(f"q{sequence}z{number}" for number, sequence in enumerate(SEQUENCES))
"""Each sequence between letters that show which one it is."""

LINES = tuple(text for text in HOSTILE if "\0" not in text)
"""Those that can be a line of a text file, which has no NUL byte."""

NAMES = tuple(text for text in LINES if "/" not in text)
"""Those that can be the name of a file or an argument."""

assert len(HOSTILE) >= 100


def grouped(texts: tuple[str, ...]) -> list[str]:
    """All texts in strings of eight, for commands that show one string each."""
    return ["".join(texts[first : first + 8]) for first in range(0, len(texts), 8)]
