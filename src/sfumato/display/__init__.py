"""How things look to people: numbers with their error bars, and cards of text and of HTML.

Nothing here knows what it shows. A class describes itself by a `Card`, which is all that is drawn of it.
"""
