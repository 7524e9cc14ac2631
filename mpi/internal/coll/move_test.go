package coll

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// lengths are numbers of bytes: none, fewer than ranks, odd, and enough for the algorithms for long messages.
var lengths = []int{0, 1, 5, 24, 1001, 20000}

func TestBarrier(t *testing.T) {
	for name, barrier := range map[string]func(p Peer) error{
		"chosen": Barrier, "dissemination": barrierDissemination, "tree": BarrierTree, "two-level": twoLevelBarrier,
	} {
		each(t, func(t *testing.T, m *matrix, _ *rand.Rand) {
			in := make(chan int, m.n)
			m.calls = true // a rank waits within the call
			m.run(t, func(p Peer) error {
				in <- p.Rank()
				if err := barrier(p); err != nil {
					return err
				}
				if len(in) != m.n {
					t.Errorf("%s: rank %d of %d left when %d had come", name, p.Rank(), m.n, len(in))
				}
				return nil
			})
		})
	}
}

func TestBcast(t *testing.T) {
	for name, algorithm := range map[string]func(p Peer, buf []byte, root int) error{
		"chosen": Bcast, "binomial": bcastBinomial, "scatter ring": bcastScatterRing, "two-level": twoLevelBcast,
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, m *matrix, r *rand.Rand) {
				for _, n := range lengths {
					if n == 0 && name != "chosen" {
						continue
					}
					for _, root := range someRoots(m.n) {
						bufs := random(r, m.n, n)
						want := append([]byte{}, bufs[root]...)
						m.run(t, func(p Peer) error { return algorithm(p, bufs[p.Rank()], root) })
						for i := range bufs {
							if !bytes.Equal(bufs[i], want) {
								t.Fatalf("%d bytes from %d: rank %d has\n%x, want\n%x", n, root, i, bufs[i], want)
							}
						}
					}
				}
			})
		})
	}
}

func TestGather(t *testing.T) {
	for name, algorithm := range map[string]func(p Peer, dst, src []byte, root, n int) error{
		"chosen":   func(p Peer, dst, src []byte, root, _ int) error { return Gather(p, dst, src, root) },
		"binomial": gatherBinomial, "linear": gatherLinear, "two-level": twoLevelGather,
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, m *matrix, r *rand.Rand) {
				for _, n := range lengths {
					if n == 0 && name != "chosen" {
						continue
					}
					for _, root := range someRoots(m.n) {
						src := random(r, m.n, n)
						want := joined(src)
						dst := make([][]byte, m.n)
						dst[root] = blanks(1, n*m.n)[0]
						if r.IntN(2) == 0 { // in place
							copy(blockAt(dst[root], root, n), src[root])
							src[root] = dst[root]
						}
						m.run(t, func(p Peer) error { return algorithm(p, dst[p.Rank()], src[p.Rank()], root, n) })
						if !bytes.Equal(dst[root], want) {
							t.Fatalf("%d bytes: root %d has\n%x, want\n%x", n, root, dst[root], want)
						}
					}
				}
			})
		})
	}
}

func TestScatter(t *testing.T) {
	for name, algorithm := range map[string]func(p Peer, dst, src []byte, root, n int) error{
		"chosen":   func(p Peer, dst, src []byte, root, _ int) error { return Scatter(p, dst, src, root) },
		"binomial": scatterBinomial, "linear": scatterLinear,
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, m *matrix, r *rand.Rand) {
				for _, n := range lengths {
					if n == 0 && name != "chosen" {
						continue
					}
					for _, root := range someRoots(m.n) {
						all := random(r, 1, n*m.n)[0]
						src, dst := make([][]byte, m.n), blanks(m.n, n)
						src[root] = append([]byte{}, all...)
						in := r.IntN(2) == 0 && n > 0
						if in {
							dst[root] = src[root]
						}
						m.run(t, func(p Peer) error { return algorithm(p, dst[p.Rank()], src[p.Rank()], root, n) })
						if in {
							dst[root] = blockAt(dst[root], root, n)
						}
						if got := joined(dst); !bytes.Equal(got, all) {
							t.Fatalf("%d bytes from %d, in place %v: ranks have\n%x, want\n%x", n, root, in, got, all)
						}
					}
				}
			})
		})
	}
}

func TestAllgather(t *testing.T) {
	for name, algorithm := range map[string]func(p Peer, dst, src []byte, n int) error{
		"chosen": func(p Peer, dst, src []byte, _ int) error { return Allgather(p, dst, src) },
		"ring":   allgatherRing, "bruck": allgatherBruck, "doubling": allgatherDoubling, "two-level": twoLevelAllgather,
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, m *matrix, r *rand.Rand) {
				if name == "doubling" && m.n&(m.n-1) != 0 {
					return
				}
				for _, n := range lengths {
					if n == 0 && name != "chosen" {
						continue
					}
					src := random(r, m.n, n)
					want := joined(src)
					dst := blanks(m.n, n*m.n)
					if r.IntN(2) == 0 { // in place
						for i := range dst {
							copy(blockAt(dst[i], i, n), src[i])
						}
						src = dst
					}
					m.run(t, func(p Peer) error { return algorithm(p, dst[p.Rank()], src[p.Rank()], n) })
					for i := range dst {
						if !bytes.Equal(dst[i], want) {
							t.Fatalf("%d bytes: rank %d has\n%x, want\n%x", n, i, dst[i], want)
						}
					}
				}
			})
		})
	}
}

func TestAlltoall(t *testing.T) {
	for name, algorithm := range map[string]func(p Peer, dst, src []byte, n int) error{
		"chosen": func(p Peer, dst, src []byte, _ int) error { return Alltoall(p, dst, src) },
		"bruck":  alltoallBruck, "spread": alltoallScattered, "pairwise": alltoallPairwise,
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, m *matrix, r *rand.Rand) {
				for _, n := range append([]int{40000}, lengths...) {
					if n == 0 && name != "chosen" {
						continue
					}
					src := random(r, m.n, n*m.n)
					before := clones(src)
					dst := results(src, n*m.n, r.IntN(2) == 0 && name != "spread")
					m.run(t, func(p Peer) error { return algorithm(p, dst[p.Rank()], src[p.Rank()], n) })
					for i := range dst {
						for j := range before {
							if got, want := blockAt(dst[i], j, n), blockAt(before[j], i, n); !bytes.Equal(got, want) {
								t.Fatalf("%d bytes: rank %d has of %d\n%x, want\n%x", n, i, j, got, want)
							}
						}
					}
				}
			})
		})
	}
}

// fromParts is what a rank has whose blocks lie where a Layout says: want returns them, the rest is as in buf.
func fromParts(buf []byte, l *Layout, want func(i int) []byte) []byte {
	out := append([]byte{}, buf...)
	for i := range l.Counts {
		copy(l.block(out, i), want(i))
	}
	return out
}

func TestGathervScatterv(t *testing.T) {
	each(t, func(t *testing.T, m *matrix, r *rand.Rand) {
		for range 20 {
			root := r.IntN(m.n)
			at, span := randomLayout(r, m.n, 50, 1+r.IntN(16))
			whole := random(r, 1, span)[0]
			blocks := make([][]byte, m.n)
			for i := range blocks {
				blocks[i] = make([]byte, at.Counts[i]*at.Elem)
			}
			in := r.IntN(2) == 0 && span > 0
			src := append([]byte{}, whole...)
			if in {
				blocks[root] = src
			}
			m.run(t, func(p Peer) error {
				if p.Rank() == root {
					return Scatterv(p, blocks[root], src, at, root)
				}
				return Scatterv(p, blocks[p.Rank()], nil, Layout{}, root)
			})
			if in {
				blocks[root] = at.block(src, root)
			}
			for i := range blocks {
				if !bytes.Equal(blocks[i], at.block(whole, i)) {
					t.Fatalf("%+v from %d, in place %v: rank %d has\n%x, want\n%x", at, root, in, i, blocks[i], at.block(whole, i))
				}
			}

			got := blanks(1, span)[0]
			want := fromParts(got, &at, func(i int) []byte { return blocks[i] })
			if in {
				copy(at.block(got, root), blocks[root])
				blocks[root] = got
			}
			m.run(t, func(p Peer) error {
				if p.Rank() == root {
					return Gatherv(p, got, at, blocks[root], root)
				}
				return Gatherv(p, nil, Layout{}, blocks[p.Rank()], root)
			})
			if !bytes.Equal(got, want) {
				t.Fatalf("%+v at %d, in place %v: got\n%x, want\n%x", at, root, in, got, want)
			}
		}
	})
}

func TestAllgatherv(t *testing.T) {
	each(t, func(t *testing.T, m *matrix, r *rand.Rand) {
		for _, most := range []int{1, 50, 5000} {
			at, span := randomLayout(r, m.n, most, 1+r.IntN(16))
			src := make([][]byte, m.n)
			for i := range src {
				src[i] = random(r, 1, at.Counts[i]*at.Elem)[0]
			}
			dst := blanks(m.n, span)
			want := fromParts(dst[0], &at, func(i int) []byte { return src[i] })
			if r.IntN(2) == 0 { // in place
				for i := range dst {
					copy(at.block(dst[i], i), src[i])
				}
				src = dst
			}
			m.run(t, func(p Peer) error { return Allgatherv(p, dst[p.Rank()], at, src[p.Rank()]) })
			for i := range dst {
				if !bytes.Equal(dst[i], want) {
					t.Fatalf("%+v: rank %d has\n%x, want\n%x", at, i, dst[i], want)
				}
			}
		}
	})
}

func TestAlltoallv(t *testing.T) {
	each(t, func(t *testing.T, m *matrix, r *rand.Rand) {
		for _, in := range []bool{false, true} {
			for _, most := range []int{1, 50, 2000} {
				elem := 1 + r.IntN(16)
				from, to := make([]Layout, m.n), make([]Layout, m.n)
				src, dst := make([][]byte, m.n), make([][]byte, m.n)
				for i := range from {
					var span int
					from[i], span = randomLayout(r, m.n, most, elem)
					for j := range i {
						if in { // what comes has to be as long as what goes
							from[i].Counts[j] = min(from[i].Counts[j], from[j].Counts[i])
							from[j].Counts[i] = from[i].Counts[j]
						}
					}
					src[i] = random(r, 1, span)[0]
				}
				for i := range to {
					if in {
						to[i], dst[i] = from[i], src[i]
						continue
					}
					var at int
					to[i] = Layout{Counts: make([]int, m.n), Displs: make([]int, m.n), Elem: elem}
					for j := range from {
						to[i].Counts[j], to[i].Displs[j] = from[j].Counts[i], at
						at += from[j].Counts[i]
					}
					dst[i] = blanks(1, at*elem)[0]
				}
				before := clones(src)
				want := make([][]byte, m.n)
				for i := range want {
					want[i] = fromParts(dst[i], &to[i], func(j int) []byte { return from[j].block(before[j], i) })
				}
				m.run(t, func(p Peer) error {
					i := p.Rank()
					return Alltoallv(p, dst[i], to[i], src[i], from[i])
				})
				for i := range dst {
					if !bytes.Equal(dst[i], want[i]) {
						t.Fatalf("in place %v: rank %d has\n%x, want\n%x", in, i, dst[i], want[i])
					}
				}
			}
		}
	})
}
