package admission

import (
	"net"
	"net/netip"
	"slices"
	"time"
)

// Waiting is the set of the connections that have proved nothing yet. Its methods may not be called at the same time.
type Waiting[C comparable] struct {
	// Limit is the maximum number of connections. A source takes half of it at most.
	Limit int
	// MinAge is how long a connection stays at least.
	MinAge time.Duration

	list []waiting[C] // the oldest first
}

type waiting[C comparable] struct {
	conn   C
	source netip.Prefix
	since  time.Time
}

// Len returns the number of connections in the set.
func (w *Waiting[C]) Len() int { return len(w.list) }

// Add adds a connection from an address. If there are too many, full is true, and drop is the connection that the caller must
// close. It is not in the set any more. It may be the new connection itself.
func (w *Waiting[C]) Add(conn C, from netip.Addr, now time.Time) (drop C, full bool) {
	entry := waiting[C]{conn, sourceOf(from), now}
	heaviest, n := w.heaviest()
	same := w.count(entry.source)
	switch {
	case same >= max(1, w.Limit/2):
		return w.replace(entry.source, entry)
	case len(w.list) < w.Limit:
		w.list = append(w.list, entry)
		return drop, false
	case n > same: // others give way only to a source that has fewer places
		return w.replace(heaviest, entry)
	}
	return w.replace(entry.source, entry)
}

// replace adds an entry in the place of the oldest one of a source, unless that one is too young.
func (w *Waiting[C]) replace(source netip.Prefix, entry waiting[C]) (drop C, full bool) {
	i := slices.IndexFunc(w.list, func(e waiting[C]) bool { return e.source == source })
	if i < 0 || entry.since.Sub(w.list[i].since) < w.MinAge {
		return entry.conn, true
	}
	drop = w.list[i].conn
	w.list = append(slices.Delete(w.list, i, i+1), entry)
	return drop, true
}

// Remove removes a connection. It reports whether it was in the set.
func (w *Waiting[C]) Remove(conn C) bool {
	i := slices.IndexFunc(w.list, func(e waiting[C]) bool { return e.conn == conn })
	if i < 0 {
		return false
	}
	w.list = slices.Delete(w.list, i, i+1)
	return true
}

// All returns the connections, the oldest first.
func (w *Waiting[C]) All() (all []C) {
	for _, e := range w.list {
		all = append(all, e.conn)
	}
	return all
}

func (w *Waiting[C]) count(source netip.Prefix) (n int) {
	for i := range w.list {
		if w.list[i].source == source {
			n++
		}
	}
	return n
}

// heaviest returns the source with the most connections, if the set is full.
func (w *Waiting[C]) heaviest() (source netip.Prefix, n int) {
	if len(w.list) < w.Limit {
		return source, 0
	}
	counts := map[netip.Prefix]int{}
	for i := range w.list {
		s := w.list[i].source
		if counts[s]++; counts[s] > n {
			source, n = s, counts[s]
		}
	}
	return source, n
}

// sourceOf returns what counts as one source.
func sourceOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // no address, as of a Unix socket: all of them are one source
	}
	return p
}

// AddrOf returns the address of the other side of a connection. It is invalid if the connection has none.
func AddrOf(c net.Conn) netip.Addr {
	if tcp, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr()
	}
	return netip.Addr{}
}
