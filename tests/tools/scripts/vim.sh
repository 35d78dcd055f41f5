# An edit with swap file and backup, by renaming and by copying; recovery of one that was killed.
cp /bin/true program
printf 'one\ntwo\nthree\n' >text
chmod 640 text
vim -e -s -N -u NONE -i NONE text <<'VIM'
set swapfile updatecount=1 backup writebackup backupcopy=no undofile undodir=.
%s/two/second/
call writefile([getftype('.text.swp')], 'swaptype')
write
$put ='four'
wq
VIM
printf 'link target\n' >target
ln -s target link
vim -e -s -N -u NONE -i NONE link <<'VIM'
set backup writebackup backupcopy=yes
%s/target/goal/
wq
VIM
echo "swap $(cat swaptype)"
echo "text $(tr '\n' ' ' <text)"
echo "backup $(tr '\n' ' ' <text~)"
echo "mode $(stat -c %a text) $(stat -c %a text~)"
echo "link $(readlink link) $(cat target)"
# One that is killed while it holds changes that were never written.
printf 'kept\n' >lost
vim -e -s -N -u NONE -i NONE lost <<'VIM' || true
set swapfile updatecount=1
$put ='not written'
preserve
call system('kill -9 ' . getpid())
VIM
vim -e -s -N -u NONE -i NONE -r lost <<'VIM'
write! recovered
qall!
VIM
echo "recovered $(tr '\n' ' ' <recovered)"
rm .lost.swp
find . | sort
