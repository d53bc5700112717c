"""What can be said of a program without running it: static checks, complexity, canonical form.

Standard library only: these modules run inside the sandbox's child, where hostile source may be
parsed without risk to the trainer (CPython's parser recurses in C, and a crafted source can take
its process down).
"""
