"""What can be known of a program without running it: static checks, complexity, canonical form.

Standard library only: these modules run in the sandbox's child, where parsing hostile source is no
risk to the trainer (CPython's parser recurses in C, and crafted source can crash its process).
"""
