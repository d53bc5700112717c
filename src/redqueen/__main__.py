"""python -m redqueen"""

from redqueen.cli import main

main()
