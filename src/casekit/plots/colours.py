"""Colours: a palette that colour-blind readers and grey print keep apart, and how colours mix and contrast."""

from __future__ import annotations

from typing import Final

__all__ = ["BLUE", "ORANGE", "READABLE", "SKY", "VERMILION", "Colour", "contrast", "mix"]

BLUE: Final = "#0072B2"  # Okabe and Ito's colours that stay apart in grey print: blue is dark, orange is light
SKY: Final = "#56B4E9"  # theirs as well: blue for thin lines on a dark background
ORANGE: Final = "#E69F00"
VERMILION: Final = "#D55E00"
READABLE: Final = 4.5  # contrast of small letters with their background

Colour = tuple[float, float, float]


def mix(colour: Colour, other: Colour, share: float) -> Colour:
    """Mix ``colour`` with a ``share`` of ``other``."""
    red, green, blue = (a + (b - a) * share for a, b in zip(colour, other, strict=True))
    return red, green, blue


def contrast(ink: Colour, paper: Colour) -> float:
    """Find the contrast of two colours, from 1 to 21, as the Web Content Accessibility Guidelines 2.1 define it."""

    def luminance(colour: Colour) -> float:
        linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)
        return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted((luminance(ink), luminance(paper)))
    return (light + 0.05) / (dark + 0.05)
