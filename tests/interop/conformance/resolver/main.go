// SPDX-License-Identifier: Apache-2.0

// Command resolver is a pod's DNS server on port 53: every question gets the asker's own address.
package main

import (
	"log"
	"net"

	"github.com/miekg/dns"
)

func answer(w dns.ResponseWriter, question *dns.Msg) {
	reply := new(dns.Msg)
	reply.SetReply(question)
	if from, ok := w.RemoteAddr().(*net.UDPAddr); ok && len(question.Question) == 1 {
		reply.Extra = append(reply.Extra, &dns.A{
			Hdr: dns.RR_Header{Name: question.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET},
			A:   from.IP,
		})
	}
	if err := w.WriteMsg(reply); err != nil {
		log.Printf("no reply to %s: %v", w.RemoteAddr(), err)
	}
}

func main() {
	log.Fatal((&dns.Server{Addr: ":53", Net: "udp", Handler: dns.HandlerFunc(answer)}).ListenAndServe())
}
