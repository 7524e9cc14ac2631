package exporter

import (
	"container/list"
	"net"
	"sync"
)

// limitedListener is a listener with at most maxConns connections. It closes the oldest one to accept another, so idle
// connections cannot lock out new clients.
type limitedListener struct {
	net.Listener
	onLimit func() // called when a connection is closed for a new one

	mu    sync.Mutex
	conns list.List // of *counted, the oldest first
}

// listedConn is a connection in the list of its listener.
type listedConn struct {
	net.Conn
	l       *limitedListener
	once    sync.Once
	element *list.Element
}

func (l *limitedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	n := &listedConn{Conn: c, l: l}
	l.mu.Lock()
	var oldest *listedConn
	if l.conns.Len() == maxConns {
		oldest = l.conns.Front().Value.(*listedConn)
	}
	n.element = l.conns.PushBack(n)
	l.mu.Unlock()
	if oldest != nil {
		oldest.Close()
		l.onLimit()
	}
	return n, nil
}

func (c *listedConn) Close() (err error) {
	c.once.Do(func() {
		c.l.mu.Lock()
		c.l.conns.Remove(c.element)
		c.l.mu.Unlock()
		err = c.Conn.Close()
	})
	return err
}
