# Clone, commit, push, and look at what is there; $url is a repository with one commit.
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org
git clone -q "$url" repo
echo "says $(cat repo/file)"
cd repo
head -c 2000000 /dev/urandom >large
git add large
git commit -q -m large
git push -q origin HEAD:refs/heads/other
echo "says $(git ls-remote --heads origin | wc -l) refs"
git fetch -q origin
git diff --quiet origin/other HEAD
echo "says pushed"
