package coll

// maxFused is the most bytes that AllreduceMany combines in one Allreduce. Longer data gains little, since its time is that of
// its bytes and not that of its messages.
const maxFused = 64 * kib

// AllreduceMany is an Allreduce of each of n buffers, which at returns. Consecutive ones of up to maxFused bytes together are
// copied beside each other, and are one Allreduce. The lengths are the same at all ranks, so all combine the same. one is an
// Allreduce.
//
// Cost: that of one Allreduce of all bytes for every maxFused bytes, and two copies.
func AllreduceMany(p Peer, n int, at func(i int) (dst, src []byte), one func(dst, src []byte) error) error {
	var room []byte // for buffers that are combined; used again, so that long lists need no more memory
	for first := 0; first < n; {
		last, bytes := fused(first, n, at)
		dst, src := at(first)
		if last-first > 1 {
			switch {
			case room != nil:
			case last == n:
				room = p.Scratch(bytes)
			default:
				room = p.Scratch(maxFused)
			}
			all := room[:bytes]
			dst, src = all, all
			eachOf(all, first, last, at, func(part, _, src []byte) { p.Copy(part, src) })
		}
		if err := one(dst, src); err != nil {
			return err
		}
		if last-first > 1 {
			eachOf(dst, first, last, at, func(part, dst, _ []byte) { p.Copy(dst, part) })
		}
		first = last
	}
	return nil
}

// fused returns up to which buffer those from first on are combined, and their bytes.
func fused(first, n int, at func(i int) (dst, src []byte)) (last, bytes int) {
	for last = first; last < n; last++ {
		_, src := at(last)
		if last > first && bytes+len(src) > maxFused {
			break
		}
		bytes += len(src)
	}
	return last, bytes
}

// eachOf calls f for the buffers from first to last, with the part of all that each has.
func eachOf(all []byte, first, last int, at func(i int) (dst, src []byte), f func(part, dst, src []byte)) {
	for i := first; i < last; i++ {
		dst, src := at(i)
		f(all[:len(src):len(src)], dst, src)
		all = all[len(src):]
	}
}
