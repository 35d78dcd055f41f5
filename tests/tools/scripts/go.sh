# A program that changes files and starts programs from many goroutines while it is showered with the signal that Go preempts them with.
export GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local GOCACHE="$PWD/cache" GOPATH="$PWD/gopath" CGO_ENABLED=0
mkdir program
cd program
cat >go.mod <<'MOD'
module example.org/many
go 1.19
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

const (
	routines = 48
	rounds   = 40
)

func work(number int) error {
	dir := fmt.Sprintf("data/%02d", number)
	if err := os.MkdirAll(filepath.Join(dir, "deep/er"), 0o755); err != nil {
		return err
	}
	for round := 0; round < rounds; round++ {
		name := filepath.Join(dir, fmt.Sprintf("%02d", round))
		if err := os.WriteFile(name+".tmp", []byte(name), 0o640); err != nil {
			return err
		}
		if err := os.Rename(name+".tmp", name); err != nil {
			return err
		}
		if err := os.Chmod(name, 0o600); err != nil {
			return err
		}
		if round%4 == 3 {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
		file, err := os.OpenFile(dir+"/log", os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		fmt.Fprintln(file, round)
		if err := file.Close(); err != nil {
			return err
		}
	}
	return os.RemoveAll(filepath.Join(dir, "deep"))
}

func children() (sum int, err error) {
	var all sync.WaitGroup
	var lock sync.Mutex
	for number := 0; number < 40; number++ {
		all.Add(1)
		go func(number int) {
			defer all.Done()
			output, failed := exec.Command("sh", "-c", "echo $0", strconv.Itoa(number)).Output()
			told, strange := strconv.Atoi(strings.TrimSpace(string(output)))
			lock.Lock()
			defer lock.Unlock()
			if failed != nil {
				err = failed
			} else if strange != nil {
				err = strange
			}
			sum += told
		}(number)
	}
	all.Wait()
	return
}

func main() {
	var stop atomic.Bool
	var storm, workers sync.WaitGroup
	storm.Add(1)
	go func() {
		defer storm.Done()
		for !stop.Load() {
			syscall.Kill(os.Getpid(), syscall.SIGURG)
		}
	}()
	failures := make(chan error, routines)
	for number := 0; number < routines; number++ {
		workers.Add(1)
		go func(number int) {
			defer workers.Done()
			if err := work(number); err != nil {
				failures <- err
			}
		}(number)
	}
	workers.Wait()
	stop.Store(true)
	storm.Wait()
	// After the storm: fork(2) begins anew at every signal.
	sum, err := children()
	close(failures)
	for err := range failures {
		fmt.Println("failure", err)
	}
	fmt.Println("failures", len(failures))
	fmt.Println("children", sum, err)
}
GO
go build -o many .
./many
echo "files $(find data -type f | wc -l)"
echo "lines $(cat data/*/log | wc -l)"
echo "right $(for file in data/*/[0-9][0-9]; do [ "$(cat "$file")" = "$file" ] && echo "$file"; done | wc -l)"
go vet .
