"""What a visitor of a public page has there: who they are to it, what is kept, shared links, export and deletion of all of it.

Private pages show none of this: there everything is everybody's.
"""
