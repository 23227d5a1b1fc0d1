"""Small statistics."""


def average(numbers):
    """Arithmetic mean of a list of numbers."""
    return sum(numbers) / len(numbers)
