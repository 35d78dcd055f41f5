# In place: many files at once, with a backup, through a link, on a mode that must survive.
for number in $(seq 1 100); do
    printf 'name = old\nnumber = %s\n' "$number" >"file$number"
done
chmod 640 file1
chmod 755 file2
setfacl -m u:nobody:r-- file3
sed -i 's/old/new/' file*
echo "changed $(cat file* | grep -c 'name = new')"
sed -i.bak '/number/d' file4
ln -s file5 link
sed -i --follow-symlinks 's/new/linked/' link
sed -i 's/new/replaced/' file6
perl -pi -e 's/new/by perl/' file7
echo "lines $(wc -l <file4) $(wc -l <file4.bak)"
echo "link $(readlink link) $(head -1 file5)"
echo "modes $(stat -c %a file1 file2 file3 | tr '\n' ' ')"
mkdir edited
mv file* link edited
rm -f sed*
ls
