# An archive of everything that a tree can hold, made and unpacked.
mkdir -p tree/deep/er tree/sticky tree/shared
printf 'plain\n' >tree/plain
printf 'private\n' >tree/private
printf '#!/bin/sh\n' >tree/program
printf 'deep\n' >tree/deep/er/file
: >tree/empty
truncate -s 1M tree/sparse
printf 'end' >>tree/sparse
ln tree/plain tree/deep/hardlink
ln -s ../plain tree/deep/symlink
ln -s nowhere tree/dangling
mkfifo tree/fifo
printf 'bytes\n' >"tree/$(printf 'not\377utf8')"
printf 'bytes\n' >"tree/with space and
newline"
chmod 600 tree/private
chmod 4755 tree/program
chmod 1777 tree/sticky
chmod 2775 tree/shared
chmod 444 tree/empty
setfattr -n user.origin -v here tree/plain
setfattr -n user.kind -v dir tree/deep
setfacl -m u:nobody:r-- tree/private
setfacl -d -m u:nobody:rwx tree/shared
find tree -exec touch -h -d '2001-02-03 04:05:06.789 UTC' {} +

tar --acls --xattrs -czf tree.tar.gz tree
mkdir out
tar --acls --xattrs -xpzf tree.tar.gz -C out
tar -dzf tree.tar.gz -C out
# Once more over what is there.
tar --acls --xattrs -xpzf tree.tar.gz -C out
mkdir plain
tar -xzf tree.tar.gz -C plain --no-same-permissions
tar -czf - tree | tar -tzf - | sort | sha256sum
getfattr -d out/tree/plain out/tree/deep
getfacl -c out/tree/private out/tree/shared
echo "inodes $(stat -c %i out/tree/plain out/tree/deep/hardlink | uniq | wc -l)"
echo "time $(stat -c %y out/tree/program)"
echo "mode $(stat -c %a out/tree/program)"
