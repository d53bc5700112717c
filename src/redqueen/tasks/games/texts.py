"""What the roles of games are asked, in words: for prompt formats that use any."""

CRITIC = """\
Another student has attempted the problem below. Decide whether the answer is correct. Do not trust the reasoning: work the problem out
yourself and compare. Then write the verdict: `correct`, or `wrong`. If you know which numbered line of the reasoning is the first wrong
one, name it after the verdict, for example `wrong, line 3`."""

ADVISER = """\
Another student has attempted the problem below and will answer once more after reading what you write. Decide whether the answer is
correct. Do not trust the reasoning: work the problem out yourself and compare. Then write a critique for the student, in a few sentences:
what is wrong and how to put it right, or that nothing is wrong. Last comes the verdict: `correct`, or `wrong`, for example `wrong, line 3`
if you know which numbered line of the reasoning is the first wrong one."""

REPAIRER = """\
You have attempted the problem below, and another student has written a critique of your attempt. The critique may be right or wrong.
Check it against the problem, then give your final answer, in the same form as before: keep it if it was correct, change it if it was not."""

DEBATER = """\
Two students have answered the problem below differently, and exactly one of the answers is correct. A judge will read one argument for each
and decide. You speak for the answer called `defended`. Write an argument in a few sentences that a judge can check step by step against the
problem: what shows that this answer is correct, and where the other one goes wrong."""

JUDGE = """\
Two students have answered the problem below differently, and exactly one of the answers is correct. Each answer comes with an argument that
somebody wrote for it. Arguments may mislead: check them against the problem. Then write which answer is correct: `first` or `second`."""
