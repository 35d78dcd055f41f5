# A project of 120 C files with headers that are generated: far more than 500 programs are executed, four at a time. Make
# and the compiler's driver start their children by vfork and posix_spawn.
mkdir project
cd project
cat >Makefile <<'MAKE'
NUMBERS := $(shell seq -w 120)
OBJECTS := $(NUMBERS:%=part%.o)

all: sum check

sum: main.o $(OBJECTS)
	cc -o $@ $^

part%.h: Makefile
	echo 'int part$*(void);' | sed 's/ *;/;/' >$@

part%.c: part%.h
	printf '#include "$<"\nint part$*(void) { return 1$* - 1000; }\n' | cat >$@

part%.o: part%.c part%.h
	cc -O0 -c -o $@ $<

main.c: $(NUMBERS:%=part%.h)
	{ cat $^; echo '#include <stdio.h>'; echo 'int main(void) { int sum = 0;'; \
	  for number in $(NUMBERS); do echo "sum += part$$number();"; done; \
	  printf '%s\n' 'printf("sum %d\n", sum); return 0; }'; } >$@

main.o: main.c
	cc -O0 -c -o $@ $<

check: sum
	./sum >told
	sh -c 'test "$$(cat told)" = "sum 7260"'
	@: >checked
.SECONDARY:
.PHONY: all check
MAKE
make -s -j4
cat told
echo "objects $(ls ./*.o | wc -l)"
touch part007.c
make -s -j4
echo "again $(find . -newer part007.c -name '*.o' | sort | tr '\n' ' ')"
make -s -q sum && echo "current yes"
rm -f ./*.o sum
