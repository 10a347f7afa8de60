"""A visitor's data on a public page: identity, storage, shared links, export and deletion.

Private pages show none of this: there everything is everybody's.
"""
