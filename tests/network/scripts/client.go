// Asks over HTTP and TLS, and over many connections at once while other goroutines keep the runtime sending SIGURG.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
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
