# A traced tree of processes: what it executes, what it opens and changes.
echo text >file
strace -f -qq -o trace -e trace=execve,mkdir,unlink -e signal=none sh -c 'mkdir made; /bin/cat file; (exec env X=1 true); rmdir made'
grep -o 'execve("[^"]*", \[[^]]*\]' trace | sort
grep -o 'mkdir("made", [0-7]*) *= [0-9-]*' trace
strace -qq -c -o counts true
echo "counted $(grep -c execve counts)"
strace -qq -o none ./none || echo "status $?"
