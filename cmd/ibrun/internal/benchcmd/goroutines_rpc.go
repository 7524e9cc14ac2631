package benchcmd

import (
	"errors"
	"fmt"
	"net"
	"net/rpc"

	"github.com/ibrun/ibrun/mpi"
)

// rpcPair makes round trips with package net/rpc: rank 1 serves calls over the loopback device, and rank 0 makes them.
type rpcPair struct {
	clients  []*rpc.Client // at rank 0
	listener net.Listener  // at rank 1
	served   chan struct{} // at rank 1: receives when rank 0 has made its calls
}

// echoService is what rank 1 serves.
type echoService struct{ served chan struct{} }

// Echo answers with its argument, a word.
func (s echoService) Echo(x *uint64, answer *uint64) error {
	*answer = *x
	return nil
}

// Served says that rank 0 has made its calls.
func (s echoService) Served(*uint64, *uint64) error {
	s.served <- struct{}{}
	return nil
}

const rpcName = "Words"

// newRPCPair connects rank 0 of a communicator of two to rank 1, with a connection for each goroutine.
func newRPCPair(c *mpi.Comm) (*rpcPair, error) {
	p := &rpcPair{}
	var port [1]int64
	if c.Rank() == 1 {
		p.served = make(chan struct{}, 1)
		server := rpc.NewServer()
		if err := server.RegisterName(rpcName, echoService{p.served}); err != nil {
			return nil, fmt.Errorf("starting the server of net/rpc: %w", err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("starting the server of net/rpc: %w", err)
		}
		p.listener = l
		port[0] = int64(l.Addr().(*net.TCPAddr).Port)
		go serveRPC(server, l)
	}
	if err := mpi.Bcast(c, port[:], 1); err != nil || c.Rank() == 1 {
		return p, err
	}
	for range goroutineCounts[len(goroutineCounts)-1] {
		client, err := rpc.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port[0]))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connecting with net/rpc: %w", err), p.close())
		}
		p.clients = append(p.clients, client)
	}
	return p, nil
}

// serveRPC serves every connection until the listener is closed.
func serveRPC(server *rpc.Server, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go server.ServeConn(conn)
	}
}

// shared makes round trips with one client for all goroutines.
func (p *rpcPair) shared(goroutines, trips int) error {
	return p.call(goroutines, trips, p.clients[:min(1, len(p.clients))])
}

// each makes round trips with a client for each goroutine.
func (p *rpcPair) each(goroutines, trips int) error { return p.call(goroutines, trips, p.clients) }

// call makes round trips. Rank 1 waits until rank 0 has made them, without a message, so that it does not poll meanwhile.
func (p *rpcPair) call(goroutines, trips int, clients []*rpc.Client) error {
	if p.listener != nil {
		<-p.served
		return nil
	}
	err := together(goroutines, trips, func(i, trips int) error {
		client := clients[i%len(clients)]
		for k := range uint64(trips) {
			var answer uint64
			if err := client.Call(rpcName+".Echo", &k, &answer); err != nil {
				return err
			}
			if answer != k {
				return fmt.Errorf("net/rpc: the answer to %d is %d", k, answer)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return clients[0].Call(rpcName+".Served", new(uint64), new(uint64))
}

func (p *rpcPair) close() (err error) {
	for _, client := range p.clients {
		err = errors.Join(err, client.Close())
	}
	if p.listener != nil {
		err = errors.Join(err, p.listener.Close())
	}
	return err
}
