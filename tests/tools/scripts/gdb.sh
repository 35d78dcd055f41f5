# A breakpoint, a run to it, a backtrace, a variable changed, a run to the end; and a program that crashes.
cat >program.c <<'C'
#include <stdio.h>
#include <string.h>
static int leaf(int number) { return number + 1; }
static int branch(int number) { return leaf(number * 2); }
int main(int count, char **words) {
    if (count > 1 && !strcmp(words[1], "crash")) *(volatile int *)0 = 1;
    printf("result %d\n", branch(20));
    return 3;
}
C
cc -g -O0 -o program program.c
gdb -nx -batch -ex 'break leaf' -ex run -ex backtrace -ex 'set var number = 6' -ex continue ./program 2>gdb.err \
    | sed -n -e 's/ (.*number=\([0-9]*\)) at .*/ \1/p' -e '/^result/p' -e 's/.*exited with code/exited/p' \
    | sed 's/0x[0-9a-f]*/ADDRESS/'
gdb -nx -batch -ex run -ex 'print $_siginfo.si_signo' --args ./program crash 2>>gdb.err | grep '^\$1'
./program || echo "status $?"
