# init, many commits, rebase, merge, gc, worktree, clone, push; every date and name is fixed, so that hashes are equal.
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_AUTHOR_DATE=2001-02-03T04:05:06Z
export GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org GIT_COMMITTER_DATE=2001-02-03T04:05:06Z

git init -q -b main repo
cd repo
git config pack.threads 1
git config gc.auto 0
mkdir src
for number in $(seq 1 25); do
    echo "line $number" >"src/file$number"
    git add -A
    git commit -q -m "commit $number"
done
git checkout -q -b side HEAD~10
echo side >src/side
git add -A
git commit -q -m side
echo more >>src/side
git commit -q -a -m more
git rebase -q main
git checkout -q main
git merge -q --no-ff -m merge side
git mv src/file1 src/moved
git rm -q src/file2
ln -s moved src/link
chmod +x src/file3
git add -A
git commit -q -m shuffled
echo unfinished >>src/file4
git stash -q
git stash pop -q
git checkout -q -- src/file4
git tag -a -m tag v1

git gc -q --prune=now
git fsck --strict
git count-objects -v | sed -n 's/^\(count\|in-pack\|packs\|garbage\): /\1 /p'

git worktree add -q -b work ../tree
echo tree >../tree/tree
git -C ../tree add -A
git -C ../tree commit -q -m 'in the worktree'
echo "worktrees $(git worktree list | wc -l)"
git worktree remove ../tree
echo "left $(git worktree list | wc -l)"
cd ..
[ ! -e tree ]

git clone -q repo clone
git clone -q --no-local --bare repo bare.git
cd clone
echo clone >src/clone
git add -A
git commit -q -m 'in the clone'
git push -q origin HEAD:refs/heads/from-clone
cd ..
git -C bare.git fetch -q origin from-clone
git -C bare.git fsck --strict

echo "head $(git -C repo rev-parse main)"
echo "commits $(git -C repo rev-list --count main)"
echo "pushed $(git -C repo rev-parse from-clone^)"
echo "fetched $(git -C bare.git rev-parse FETCH_HEAD^)"
echo "status ($(git -C repo status --porcelain)$(git -C clone status --porcelain))"
git -C repo ls-files -s | sha256sum
ls repo/.git clone/.git bare.git
mkdir trees
git -C repo archive main | tar -x -C trees
