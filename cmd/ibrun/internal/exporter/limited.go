package exporter

import (
	"container/list"
	"net"
	"sync"
)

// limited is a listener with at most maxConns connections. For one more the oldest is closed, so that those who hold
// connections and say nothing keep nobody out.
type limited struct {
	net.Listener
	crowded func() // is called when one is closed

	mu    sync.Mutex
	conns list.List // of *counted, the oldest first
}

// counted is a connection in the list.
type counted struct {
	net.Conn
	l    *limited
	once sync.Once
	at   *list.Element
}

func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	n := &counted{Conn: c, l: l}
	l.mu.Lock()
	var oldest *counted
	if l.conns.Len() == maxConns {
		oldest = l.conns.Front().Value.(*counted)
	}
	n.at = l.conns.PushBack(n)
	l.mu.Unlock()
	if oldest != nil {
		oldest.Close()
		l.crowded()
	}
	return n, nil
}

func (c *counted) Close() (err error) {
	c.once.Do(func() {
		c.l.mu.Lock()
		c.l.conns.Remove(c.at)
		c.l.mu.Unlock()
		err = c.Conn.Close()
	})
	return err
}
