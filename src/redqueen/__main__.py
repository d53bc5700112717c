"""python -m redqueen"""

from redqueen.cli.app import main

main()
