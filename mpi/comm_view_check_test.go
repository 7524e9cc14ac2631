package mpi_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// pair and riap have the same length, but their numbers are in another order.
type (
	pair struct {
		A int64
		B float64
	}
	riap struct {
		B float64
		A int64
	}
	padded struct {
		A    int64
		Flag bool
		B    float64
	}
)

// otherData are collectives whose elements at rank 1 are of another struct with the same length.
var otherData = map[string]func(c *mpi.Comm, one, all mpi.View) error{
	"Bcast": func(c *mpi.Comm, one, _ mpi.View) error { return c.Bcast(one, 0) },
	"Gather": func(c *mpi.Comm, one, all mpi.View) error {
		if c.Rank() != 0 {
			all = mpi.View{}
		}
		return c.Gather(all, one, 0)
	},
	"Scatter": func(c *mpi.Comm, one, all mpi.View) error {
		if c.Rank() != 0 {
			all = mpi.View{}
		}
		return c.Scatter(one, all, 0)
	},
	"Allgather": func(c *mpi.Comm, one, all mpi.View) error { return c.Allgather(all, one) },
	"Alltoall": func(c *mpi.Comm, _, all mpi.View) error {
		return c.Alltoall(all, all)
	},
}

func viewsOf[T any](n int) (one, all mpi.View) {
	return mpi.ViewOf(make([]T, 2)), mpi.ViewOf(make([]T, 2*n))
}

// TestDifferentData: structs that differ in the order of their numbers are an error in collectives that are checked, and in those
// over shared memory. The ranks that wait for no data of rank 1 may succeed.
func TestDifferentData(t *testing.T) {
	for name, call := range otherData {
		for _, run := range []func(*testing.T, int, func(*mpi.Process) error){runChecked, runUnchecked} {
			t.Run(name, func(t *testing.T) {
				failed := make([]bool, 3)
				run(t, 3, func(p *mpi.Process) error {
					c, err := p.World().Dup()
					if err != nil {
						return err
					}
					one, all := viewsOf[pair](3)
					if c.Rank() == 1 {
						one, all = viewsOf[riap](3)
					}
					if err = call(c, one, all); err != nil {
						failed[c.Rank()] = true
						return ofClass(err, mpi.ErrType)
					}
					return nil
				})
				if !slices.Contains(failed, true) {
					t.Error("no rank finds the difference")
				}
			})
		}
	}
}

// otherParts are collectives of views with a block for each rank, in which own and parts have the same length.
var otherParts = map[string]func(c *mpi.Comm, own mpi.View, parts []mpi.View) error{
	"Gatherv":    func(c *mpi.Comm, own mpi.View, parts []mpi.View) error { return c.Gatherv(parts, own, 0) },
	"Scatterv":   func(c *mpi.Comm, own mpi.View, parts []mpi.View) error { return c.Scatterv(own, parts, 0) },
	"Allgatherv": func(c *mpi.Comm, own mpi.View, parts []mpi.View) error { return c.Allgatherv(parts, own) },
	"Alltoallw": func(c *mpi.Comm, own mpi.View, parts []mpi.View) error {
		return c.Alltoallw(parts, []mpi.View{own, own, own})
	},
}

// TestDifferentParts: checked collectives compare each block with what the other rank expects: its numbers and its length.
func TestDifferentParts(t *testing.T) {
	for name, call := range otherParts {
		for _, test := range []struct {
			what  string
			view  func() mpi.View // of rank 1
			class mpi.Class       // 0: none
		}{
			{"the same", func() mpi.View { return mpi.ViewOf(make([]pair, 2)) }, 0},
			{"the same numbers in another layout", func() mpi.View {
				return mpi.ArrayOf(make([]pair, 4), 2, 2).Col(1)
			}, 0},
			{"another order", func() mpi.View { return mpi.ViewOf(make([]riap, 2)) }, mpi.ErrType},
			{"numbers of one kind", func() mpi.View { return mpi.ViewOf(make([]int64, 4)) }, mpi.ErrType},
			{"another length", func() mpi.View { return mpi.ViewOf(make([]pair, 3)) }, mpi.ErrCount},
		} {
			t.Run(name+"/"+test.what, func(t *testing.T) {
				runChecked(t, 3, func(p *mpi.Process) error {
					c, err := p.World().Dup()
					if err != nil {
						return err
					}
					own, parts := mpi.ViewOf(make([]pair, 2)), make([]mpi.View, 3)
					for i := range parts {
						parts[i] = mpi.ViewOf(make([]pair, 2))
					}
					if c.Rank() == 1 {
						own = test.view()
					}
					if c.Rank() == 1 && name == "Allgatherv" {
						parts[1] = test.view()
					}
					err = call(c, own, parts)
					if test.class == 0 {
						return errors.Join(err, c.Free())
					}
					if err := ofClass(err, test.class); err != nil {
						return err
					}
					return check(strings.Contains(err.Error(), "rank 1") && strings.Contains(err.Error(), "of views"), "%v", err)
				})
			})
		}
	}
}

// TestNoParts: a view without data for each rank is allowed, and fewer views are an error.
func TestNoParts(t *testing.T) {
	for _, run := range []func(*testing.T, int, func(*mpi.Process) error){runChecked, runUnchecked} {
		run(t, 2, func(p *mpi.Process) error {
			c := p.World()
			none := []mpi.View{mpi.ViewOf([]pair{}), mpi.ViewOf([]pair{})}
			return errors.Join(c.Alltoallw(none, none), c.Allgatherv(none, none[0]), ofClass(c.Alltoallw(none, nil), mpi.ErrCount),
				ofClass(c.Alltoallw(none, []mpi.View{}), mpi.ErrCount))
		})
	}
}

// TestPartsAndSlices: ranks may have views where others have slices of the same numbers, also if calls are checked.
func TestPartsAndSlices(t *testing.T) {
	runChecked(t, 3, func(p *mpi.Process) error {
		c := p.World()
		x, all := []float64{1, 2}, make([]float64, 6)
		parts := []mpi.View{mpi.ViewOf(all[:2]), mpi.ViewOf(all[2:4]), mpi.ViewOf(all[4:])}
		gather := c.Gatherv(parts, mpi.ViewOf(x), 0)
		if c.Rank() == 1 {
			return errors.Join(gather, mpi.Scatterv(c, x, nil, nil, nil, 0))
		}
		scatter := c.Scatterv(mpi.ViewOf(x), parts, 0)
		return errors.Join(gather, scatter, check(c.Rank() != 0 || slices.Equal(all, []float64{1, 2, 1, 2, 1, 2}), "%v", all))
	})
}

// TestNeighborViewsAndSlices: in neighborhood collectives that are checked, a rank may have views where another has slices of the
// same numbers.
func TestNeighborViewsAndSlices(t *testing.T) {
	runChecked(t, 2, func(p *mpi.Process) error {
		me := p.World().Rank()
		peer := []int{1 - me}
		c, err := p.World().DistGraphCreateAdjacent(mpi.Neighbors{Sources: peer, Destinations: peer}, nil, mpi.KeepRanks)
		if err != nil {
			return err
		}
		x := []float64{float64(me), 2}
		var got [3][2]float64
		if me == 0 {
			err = errors.Join(mpi.NeighborAllgatherv(c, got[0][:], []int{2}, nil, x), mpi.NeighborAlltoall(c, got[1][:], x),
				mpi.NeighborAlltoallv(c, got[2][:], []int{2}, nil, x, []int{2}, nil))
		} else {
			v, in := mpi.ViewOf(x), func(i int) mpi.View { return mpi.ViewOf(got[i][:]) }
			err = errors.Join(c.NeighborAllgatherv([]mpi.View{in(0)}, v), c.NeighborAlltoall(in(1), v),
				c.NeighborAlltoallw([]mpi.View{in(2)}, []mpi.View{v}))
		}
		want := [2]float64{float64(1 - me), 2}
		return errors.Join(err, check(got == [3][2]float64{want, want, want}, "rank %d got %v", me, got), c.Free())
	})
}

// TestEqualData: the same numbers in memory of another layout are the same data, with and without padding.
func TestEqualData(t *testing.T) {
	for _, run := range []func(*testing.T, int, func(*mpi.Process) error){runChecked, runUnchecked} {
		run(t, 3, func(p *mpi.Process) error {
			type flagged struct {
				Skip float64
				A    int64
				Flag bool
				_    [40]byte
				B    float64
			}
			long, err := mpi.TypeStruct([]int{1, 1, 1}, []int{8, 16, 64},
				[]*mpi.Datatype{typeOf[int64](), typeOf[bool](), typeOf[float64]()})
			if err == nil {
				err = long.Commit()
			}
			if err != nil {
				return err
			}
			c := p.World()
			x, y := []padded{{7, true, 1.5}}, make([]flagged, 1)
			v := mpi.ViewOf(x)
			if c.Rank() == 1 {
				v = mpi.ViewAs(y, 0, long, 1)
			}
			if err := c.Bcast(v, 0); err != nil {
				return err
			}
			if c.Rank() == 1 && (y[0].A != 7 || !y[0].Flag || y[0].B != 1.5) {
				return fmt.Errorf("received %v", y)
			}
			return nil
		})
	}
}

// TestViewsNotUsed: ranks that are not the root keep the data of views that only the root uses.
func TestViewsNotUsed(t *testing.T) {
	mpitest.Run(t, 3, func(p *mpi.Process) error {
		c := p.World()
		x := make([]int, 12)
		for i := range x {
			x[i] = 1 + c.Rank()
		}
		a := mpi.ArrayOf(x, 6, 2)
		own := mpi.ViewOf([]int{7, 7})
		lists := []mpi.View{a.Sub([]int{0, 0}, []int{2, 1}), a.Sub([]int{2, 0}, []int{2, 1}), a.Sub([]int{4, 0}, []int{2, 1})}
		err := errors.Join(c.Gather(a.Col(1), own, 0), c.Gatherv(lists, own, 0))
		for i, v := range x {
			if want := 1 + c.Rank(); c.Rank() == 0 && v != 7 || c.Rank() != 0 && v != want {
				err = errors.Join(err, fmt.Errorf("rank %d: element %d is %d", c.Rank(), i, v))
			}
		}
		return err
	})
}

// TestCheckedEmpty checks that calls that are checked compare the type of an empty slice, and not
// that of an empty view, which has none.
func TestCheckedEmpty(t *testing.T) {
	runChecked(t, 2, func(p *mpi.Process) error {
		c := p.World()
		if c.Rank() == 1 {
			return errors.Join(mpi.Send(c, []float64{}, 0, 1), c.Send(mpi.ViewOf([]float64{}), 0, 2))
		}
		_, err := mpi.Recv(c, make([]int32, 1), 1, 1)
		st, errView := mpi.Recv(c, make([]int32, 1), 1, 2)
		return errors.Join(ofClass(err, mpi.ErrType), errView, check(st.Bytes() == 0, "%d bytes", st.Bytes()))
	})
}
