// Package admission decides which connections of a listener are dropped when there are too many whose other side has not proved
// yet that it belongs to the job.
//
//	waiting := admission.Waiting[net.Conn]{Limit: 1024, MinAge: 500 * time.Millisecond}
//	if drop, full := waiting.Add(conn, source, time.Now()); full {
//		drop.Close()
//	}
//	...
//	waiting.Remove(conn) // when the other side has proved itself, or the connection is closed
//
// Any process may connect to a port. An unauthenticated one that connects often must not displace a process of the job, which
// needs a few round trips for its proof. Therefore:
//
//   - A connection that is younger than MinAge is never displaced.
//   - A source takes half of the places at most. It then displaces its own connections only.
//   - A connection that has proved itself is in no such set, and nothing displaces it.
//
// [Limit] bounds the number of places by that of file descriptors.
//
// A source is an IPv4 address, or the first 64 bits of an IPv6 address, because a host has all addresses of its network.
package admission
