"""Widths of columns of text, so that no word breaks: rich gives each column a share instead."""

from collections.abc import Collection


def two_widths(room: int, left: Collection[str], right: Collection[str]) -> tuple[int, int]:
    """The widths of two columns of text that share some room.

    If not all fits, both get half of it, but at least their longest word, the left one first.
    """
    longest_left, longest_right = (max(map(len, texts), default=0) for texts in (left, right))
    if longest_left + longest_right > room:
        words_left, words_right = _longest_word(left), _longest_word(right)
        longest_left = min(longest_left, max(room // 2, words_left, room - longest_right))
        longest_left = max(words_left, min(longest_left, room - words_right))
    return longest_left, max(1, room - longest_left)


def _longest_word(texts: Collection[str]) -> int:
    return max((len(word) for text in texts for word in text.split()), default=1)
