// Asks over HTTP and TLS, and over many connections at once while other goroutines keep the runtime sending SIGURG.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

func get(client *http.Client, url string) (string, error) {
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// What newer versions of this language do for every connection (net/mptcpsock_linux.go): Multipath TCP, and TCP where there is none.
func multipath() string {
	const protocol = 262
	addresses, err := net.LookupIP("www.example.org")
	if err != nil {
		return err.Error()
	}
	for _, address := range addresses {
		four := address.To4()
		if four == nil {
			continue
		}
		to := &syscall.SockaddrInet4{Port: 80}
		copy(to.Addr[:], four)
		for _, protocol := range []int{protocol, syscall.IPPROTO_TCP} {
			fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, protocol)
			if err != nil {
				continue
			}
			defer syscall.Close(fd)
			if err := syscall.Connect(fd, to); err != nil {
				return err.Error()
			}
			syscall.Write(fd, []byte("GET / HTTP/1.0\r\n\r\n"))
			answer := make([]byte, 8)
			syscall.Read(fd, answer)
			return string(answer)
		}
	}
	return "no socket"
}

func main() {
	pool := x509.NewCertPool()
	pem, _ := os.ReadFile(os.Args[1])
	pool.AppendCertsFromPEM(pem)
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}
	client := &http.Client{Transport: transport}
	for _, each := range []struct{ mark, url string }{
		{"", "http://www.example.org/"},
		{"tls ", "https://www.example.org/"},
	} {
		text, err := get(client, each.url)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Print(each.mark, text)
	}
	fmt.Println("mptcp", multipath())
	// A loop without a call is preempted by a signal every 10 ms (runtime/preempt.go).
	var stop atomic.Bool
	for number := 0; number < 4; number++ {
		go func() {
			for sum := 0; !stop.Load(); sum++ {
				for step := 0; step < 1_000_000; step++ {
					sum ^= step
				}
			}
		}()
	}
	var done, failures atomic.Int64
	var all sync.WaitGroup
	for number := 0; number < 20; number++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for round := 0; round < 10; round++ {
				if text, err := get(client, "http://www.example.org/bytes/64"); err != nil || len(text) != 64 {
					fmt.Fprintln(os.Stderr, err)
					failures.Add(1)
				}
				done.Add(1)
			}
		}()
	}
	all.Wait()
	stop.Store(true)
	fmt.Println("many", done.Load(), "failures", failures.Load())
}
