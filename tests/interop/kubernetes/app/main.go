// SPDX-License-Identifier: Apache-2.0

// What runs in the pods of the tests: a server of HTTP and of lines that come back, and clients of both.
//
//	app serve                      HTTP on 8080, lines on 9000, until a signal
//	app get URL                    one request over a new connection; prints the body
//	app load URL HOST:PORT N       requests over new connections, and N connections that last; reports on standard output
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	patience = 15 * time.Second
	pace     = 50 * time.Millisecond
	pulse    = 200 * time.Millisecond
)

func serve() error {
	host, _ := os.Hostname()
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		say("GET from %s", r.RemoteAddr)
		fmt.Fprintf(w, "%s %s\n", host, r.RemoteAddr)
	})
	lines, err := net.Listen("tcp", ":9000")
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := lines.Accept()
			if err != nil {
				return
			}
			say("OPEN from %s", c.RemoteAddr())
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	return http.ListenAndServe(":8080", nil)
}

// One request, its connection used for nothing else.
func get(url string) (string, error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", answer.StatusCode)
	}
	return string(body), err
}

func say(format string, args ...any) {
	fmt.Printf("%s %s\n", time.Now().UTC().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

// A connection that lasts: a line goes and comes back, again and again. When it ends another is made.
func hold(id int, address string, pulses *atomic.Int64) {
	for {
		c, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			say("FAILED connect %d: %v", id, err)
			time.Sleep(time.Second)
			continue
		}
		made, in := time.Now(), bufio.NewReader(c)
		for n := 0; ; n++ {
			want := fmt.Sprintf("%d %d\n", id, n)
			c.SetDeadline(time.Now().Add(patience))
			_, err = c.Write([]byte(want))
			if err == nil {
				var line string
				line, err = in.ReadString('\n')
				if err == nil && line != want {
					err = fmt.Errorf("%q instead of %q", line, want)
				}
			}
			if err != nil {
				break
			}
			pulses.Add(1)
			time.Sleep(pulse)
		}
		c.Close()
		say("ENDED %d after %.1f s: %v", id, time.Since(made).Seconds(), err)
	}
}

func load(url, address string, n int) {
	var requests, pulses atomic.Int64
	for i := range n {
		go hold(i, address, &pulses)
	}
	go func() {
		for {
			if _, err := get(url); err != nil {
				say("FAILED get: %v", err)
			}
			requests.Add(1)
			time.Sleep(pace)
		}
	}()
	for range time.Tick(time.Second) {
		say("DONE %d requests %d pulses", requests.Load(), pulses.Load())
	}
}

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-end
		os.Exit(0)
	}()
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == "serve":
		err = serve()
	case len(os.Args) == 3 && os.Args[1] == "get":
		var body string
		body, err = get(os.Args[2])
		fmt.Print(body)
	case len(os.Args) == 5 && os.Args[1] == "load":
		n, _ := strconv.Atoi(os.Args[4])
		load(os.Args[2], os.Args[3], n)
	default:
		err = fmt.Errorf("serve, get URL, or load URL HOST:PORT N")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
