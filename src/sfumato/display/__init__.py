"""The display of results for people: numbers with error bars, cards as text and HTML, pictures, progress.

Nothing here knows what it shows. A class describes itself by a `Card`, which is all that is drawn of it.
"""
