# Twenty recipes, each a few pipelines under dash, four at a time, twenty times over from the start.
cat >Makefile <<'MAKEFILE'
SHELL := /bin/dash
NAMES := $(foreach i,0 1,$(foreach j,0 1 2 3 4 5 6 7 8 9,$(i)$(j)))
all: $(addprefix out/,$(addsuffix .sum,$(NAMES)))
	@cat $^ | sort | sha256sum | cut -c 1-64 > out/all
# Not to be removed as intermediate files: make would say so.
.SECONDARY:
out:
	@mkdir -p $@
out/%.txt: | out
	@seq 0 $* | sort -rn | tee $@.tmp | wc -l > $@.count && test -s $@.tmp && mv $@.tmp $@
out/%.sum: out/%.txt
	@(cat $<; echo $*) | tr '0-9' 'a-j' | sed 's/a/A/' | sha256sum > $@.new && { rm -f $@; mv $@.new $@; } && : > $@.done && rm $@.done
MAKEFILE
round=0
while [ "$round" -lt 20 ]; do
    make -j4 >log 2>&1 || { cat log; exit 1; }
    [ ! -s log ] || { cat log; exit 1; }
    echo "all $(cat out/all) $(find out -name '*.sum' | wc -l) $(find out -name '*.tmp' -o -name '*.new' -o -name '*.done' | wc -l)"
    round=$((round + 1))
    [ "$round" -eq 20 ] || rm -r out
done
