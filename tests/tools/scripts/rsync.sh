# A copy with everything, brought up to date twice, the second time in place.
mkdir -p from/one/two from/gone
for number in $(seq 1 60); do
    echo "file $number" >"from/one/file$number"
done
seq 1 20000 >from/large
ln from/large from/one/hardlink
ln -s ../large from/one/symlink
echo gone >from/gone/file
chmod 640 from/one/file1
chmod 755 from/one/file2
chmod 2755 from/one/two
setfattr -n user.origin -v here from/large
setfacl -m u:nobody:rw- from/one/file3
find from -exec touch -h -d '2002-03-04 05:06:07.654321 UTC' {} +
rsync -aHAX from/ to/
rsync -aHAX --dry-run --itemize-changes from/ to/
echo "first $(find to | wc -l)"

rm -r from/gone from/one/file60
sed -i 's/^100$/changed/' from/large
echo new >from/one/new
find from -exec touch -h -d '2003-03-04 05:06:07 UTC' {} +
rsync -aHAX --delete --checksum from/ to/
echo appended >>from/one/file5
touch -d '2004-01-01 UTC' from/one/file5
rsync -aHAX --delete --inplace --no-whole-file from/ to/
diff -r from to
echo "second $(find to | wc -l)"
mkdir backup
echo again >from/one/file6
rsync -aHAX --backup --backup-dir="$PWD/backup" from/ to/
echo "kept $(cat backup/one/file6)"
