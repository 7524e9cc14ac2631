package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/mem"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/internal/bootstrap"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// setNames lists the process sets of a session.
func setNames(s *mpi.Session) ([]string, error) {
	n, err := s.NumPsets(nil)
	if err != nil {
		return nil, err
	}
	names := make([]string, n)
	for i := range names {
		if names[i], err = s.NthPset(nil, i); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// members lists the processes of a set by their ranks among all.
func members(s *mpi.Session, name string) ([]int, error) {
	g, err := s.Group(name)
	all, errAll := s.Group("mpi://WORLD")
	if err := errors.Join(err, errAll); err != nil {
		return nil, err
	}
	ranks := make([]int, g.Size())
	for i := range ranks {
		ranks[i] = i
	}
	return g.Ranks(ranks, all)
}

// sizeOf is what the info of a set says.
func sizeOf(s *mpi.Session, name string) (int, error) {
	info, err := s.PsetInfo(name)
	if err != nil {
		return 0, err
	}
	text, ok := info.Get("mpi_size")
	n, err := strconv.Atoi(text)
	return n, errors.Join(err, check(ok && strconv.Itoa(n) == text, "mpi_size is %q", text))
}

// everything returns all information about sets as text.
func everything(s *mpi.Session) (string, error) {
	names, err := setNames(s)
	var text strings.Builder
	for i, name := range names {
		ranks, errMembers := members(s, name)
		n, errSize := sizeOf(s, name)
		err = errors.Join(err, errMembers, errSize)
		fmt.Fprintln(&text, i, name, ranks, n)
	}
	return text.String(), err
}

// communicate uses communicators, other sessions and the World Model.
func communicate(p *mpi.Process, s *mpi.Session) error {
	c, err := fromSet(s, "mpi://WORLD", "busy")
	if err != nil {
		return err
	}
	d, err := c.Dup()
	if err != nil {
		return err
	}
	other, err := p.OpenSession(nil)
	if err != nil {
		return err
	}
	return errors.Join(checkUsable(d), d.Free(), checkUsable(c), c.Free(), other.Close(),
		p.InitWorld(), checkUsable(p.World()), p.Finalize())
}

// unchanged checks that f returns the same before and after communicate.
func unchanged(f func(s *mpi.Session) (string, error)) func(p *mpi.Process, s *mpi.Session) error {
	return func(p *mpi.Process, s *mpi.Session) error {
		before, err := f(s)
		errBusy := communicate(p, s)
		after, errAfter := f(s)
		return errors.Join(err, errBusy, errAfter, check(before == after && before != "", "%q became %q", before, after))
	}
}

func TestNumPsets(t *testing.T) {
	sessions(t, map[string]func(p *mpi.Process, s *mpi.Session) error{
		"S3-01": func(p *mpi.Process, s *mpi.Session) error {
			n, err := s.NumPsets(nil)
			return errors.Join(err, check(n >= 2, "%d sets", n))
		},
		"S3-02": func(p *mpi.Process, s *mpi.Session) error {
			all, err := s.Group("mpi://WORLD")
			if err != nil {
				return err
			}
			want := []string{"mpi://WORLD", "mpi://SELF"}
			for _, set := range psets[all.Size()] {
				if slices.Contains(set.Ranks, all.Rank()) {
					want = append(want, set.Name)
				}
			}
			got, err := setNames(s)
			return errors.Join(err, check(slices.Equal(got, want), "sets %q, want %q", got, want))
		},
		"S3-09": func(p *mpi.Process, s *mpi.Session) error {
			info := &mpi.Info{}
			err := info.Set("no_such_hint", "x")
			n, err1 := s.NumPsets(nil)
			m, err2 := s.NumPsets(info)
			a, err3 := s.NthPset(nil, 1)
			b, err4 := s.NthPset(info, 1)
			return errors.Join(err, err1, err2, err3, err4, check(n == m && a == b && info.Len() == 1, "%d %d %s %s", n, m, a, b))
		},
	})
}

// moving runs statements on one rank and on three, while the launcher begins to report other process sets. Processes
// that have already asked must not notice.
func moving(t *testing.T, all map[string]func(p *mpi.Process, s *mpi.Session) error) {
	t.Attr("changes", "process sets, communicators, sessions, the World Model")
	for id, f := range byName(all) {
		t.Run(id, func(t *testing.T) {
			for _, n := range []int{1, 3} {
				var asked atomic.Int32
				mpitest.RunWith(t, n, mpitest.Options{JoinOnly: true, Psets: func() []mpitest.Pset {
					if int(asked.Add(1)) <= n { // each process calls it once
						return psets[n]
					}
					later := append(slices.Clone(psets[n]), mpitest.Pset{Name: "ice", Ranks: []int{0}})
					later[0].Ranks = []int{n - 1}
					slices.Reverse(later)
					return later
				}}, inSession(f))
			}
		})
	}
}

func TestPsetsStay(t *testing.T) {
	moving(t, map[string]func(p *mpi.Process, s *mpi.Session) error{
		"S3-03": func(p *mpi.Process, s *mpi.Session) error {
			before, err := setNames(s)
			errBusy := communicate(p, s)
			n, errAfter := s.NumPsets(nil) // which may have grown
			errs := []error{err, errBusy, errAfter, check(n >= len(before), "%d sets became %d", len(before), n)}
			for i := range n {
				_, err := s.NthPset(nil, i)
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
		"S3-04": unchanged(func(s *mpi.Session) (string, error) {
			names, err := setNames(s)
			slices.Sort(names)
			return strings.Join(names, ", "), err
		}),
		"S3-05": unchanged(func(s *mpi.Session) (string, error) {
			names, err := setNames(s)
			return fmt.Sprint(slices.Index(names, "mpi://WORLD"), slices.Index(names, "mpi://SELF"), slices.Index(names, "ocean")), err
		}),
		"S3-06": unchanged(func(s *mpi.Session) (string, error) {
			names, err := setNames(s)
			return strings.Join(names, ", "), err
		}),
		"S3-18": unchanged(everything),
		"S3-19": func(p *mpi.Process, s *mpi.Session) error {
			names, err := setNames(s)
			errs := []error{err}
			buf := make([]byte, 100)
			var was []string
			for i, name := range names {
				n, err := s.CopyNthPset(nil, i, buf)
				was = append(was, string(buf[:n]))
				errs = append(errs, err, check(was[i] == name, "%q is %q", was[i], name))
				clear(buf) // which is the caller's
			}
			errs = append(errs, communicate(p, s))
			now, err := setNames(s)
			return errors.Join(append(errs, err, check(slices.Equal(names, was), "%q became %q", was, names),
				check(slices.Equal(now, was), "%q are called %q now", was, now))...)
		},
	})
}

func TestNthPset(t *testing.T) {
	sessions(t, map[string]func(p *mpi.Process, s *mpi.Session) error{
		"S3-10": func(p *mpi.Process, s *mpi.Session) error {
			names, err := setNames(s)
			errs := []error{err}
			for i, name := range names {
				ranks, err := members(s, name)
				all, errAll := s.Group("mpi://WORLD")
				errs = append(errs, err, errAll, check(slices.Contains(ranks, all.Rank()), "set %d, %s, has ranks %v", i, name, ranks),
					check(slices.Index(names, name) == i, "sets %d and %d are %s", slices.Index(names, name), i, name))
			}
			return errors.Join(errs...)
		},
		"S3-11": copied(20, "mpi://WORLD"),
		"S3-12": copied(7, "mpi://W"),
		"S3-13": func(p *mpi.Process, s *mpi.Session) error {
			room := []byte("untouched")
			n, err := s.CopyNthPset(nil, 0, room[:0])
			m, errNil := s.CopyNthPset(nil, 0, nil)
			return errors.Join(err, errNil, check(string(room) == "untouched" && n == 11 && m == 11, "%q, lengths %d, %d", room, n, m))
		},
		"S3-14": func(p *mpi.Process, s *mpi.Session) error {
			var errs []error
			for size := range 30 {
				n, err := s.CopyNthPset(nil, 1, make([]byte, size))
				errs = append(errs, err, check(n == len("mpi://SELF"), "length %d with room for %d", n, size))
			}
			return errors.Join(errs...)
		},
		"S3-17": identicalOrDisjoint,
		"S3-20": func(p *mpi.Process, s *mpi.Session) error {
			names, err := setNames(s)
			longest := slices.MaxFunc(names, func(a, b string) int { return len(a) - len(b) })
			return errors.Join(err, check(len(longest) <= mpi.MaxPsetName && len(names[0]) > 0, "%q", longest))
		},
		"S3-21": func(*mpi.Process, *mpi.Session) error { return check(mpi.MaxPsetName >= 63, "%d", mpi.MaxPsetName) },
		"S3-23": func(p *mpi.Process, s *mpi.Session) error {
			count, err := s.NumPsets(nil)
			errs := []error{err}
			for _, n := range []int{-1, count, count + 1, -1 << 62, 1 << 62} {
				buf := []byte("untouched")
				name, err := s.NthPset(nil, n)
				length, errCopy := s.CopyNthPset(nil, n, buf)
				errs = append(errs, ofClass(err, mpi.ErrArg), ofClass(errCopy, mpi.ErrArg),
					check(name == "" && length == 0 && string(buf) == "untouched", "%q %d %q", name, length, buf))
			}
			return errors.Join(errs...)
		},
	})
}

func TestPsetNames(t *testing.T) {
	sessions(t, map[string]func(p *mpi.Process, s *mpi.Session) error{
		"S3-K1": func(p *mpi.Process, s *mpi.Session) error {
			var errs []error
			for _, name := range []string{"mpi://world", "mpi://World", "MPI://SELF", "mpi://self", "mpi://WORLD "} {
				_, err := s.Group(name)
				errs = append(errs, ofClass(err, mpi.ErrArg))
			}
			world, err := s.Group("mpi://WORLD")
			self, errSelf := s.Group("mpi://SELF")
			want, errIncl := world.Incl(world.Rank())
			return errors.Join(append(errs, err, errSelf, errIncl, check(self.Equal(want), "SELF is not this process"))...)
		},
		// A set that the process is not in, known from elsewhere.
		"S3-K3": func(p *mpi.Process, s *mpi.Session) error {
			world, err := s.Group("mpi://WORLD")
			if err != nil {
				return err
			}
			var errs []error
			for _, set := range psets[world.Size()] {
				got, err := members(s, set.Name)
				n, errSize := sizeOf(s, set.Name)
				errs = append(errs, err, errSize, check(slices.Equal(got, set.Ranks) && n == len(got), "%s: %v, size %d", set.Name, got, n))
			}
			return errors.Join(errs...)
		},
		"S3-K4": func(p *mpi.Process, s *mpi.Session) error {
			name, err := s.NthPset(nil, 0)
			return errors.Join(err, check(name == "mpi://WORLD", "set 0 is %q", name))
		},
	})
}

// copied checks how much of the name mpi://WORLD is copied to a buffer of a size, and that nothing is written behind
// it.
func copied(size int, want string) func(p *mpi.Process, s *mpi.Session) error {
	return func(p *mpi.Process, s *mpi.Session) error {
		room := []byte(strings.Repeat("-", 40))
		n, err := s.CopyNthPset(nil, 0, room[:size])
		return errors.Join(err, check(n == 11 && string(room) == want+strings.Repeat("-", 40-len(want)), "%q, length %d", room, n))
	}
}

// identicalOrDisjoint compares the sets that the processes list.
func identicalOrDisjoint(p *mpi.Process, s *mpi.Session) error {
	c, err := fromSet(s, "mpi://WORLD", "compare")
	if err != nil {
		return err
	}
	mine, err := everything(s)
	errs := []error{err}
	line := make([]byte, 4096)
	copy(line, mine)
	all := make([]byte, 4096*c.Size())
	errs = append(errs, mpi.Allgather(c, all, line), c.Free())
	ranks := map[string]map[string]bool{} // of a name: which sets there are
	inside := map[string]bool{}
	for r := range c.Size() {
		text, _, _ := strings.Cut(string(all[r*4096:(r+1)*4096]), "\x00")
		for set := range strings.Lines(text) {
			_, set, _ = strings.Cut(set, " ") // without its index
			name, _, _ := strings.Cut(set, " [")
			if ranks[name] == nil {
				ranks[name] = map[string]bool{}
			}
			if ranks[name][set] {
				continue
			}
			ranks[name][set] = true
			_, list, _ := strings.Cut(set, "[")
			list, _, _ = strings.Cut(list, "]")
			for _, rank := range strings.Fields(list) {
				key := name + " " + rank
				errs = append(errs, check(!inside[key], "rank %s is in two sets %s", rank, name))
				inside[key] = true
			}
		}
	}
	return errors.Join(append(errs, check(len(ranks["mpi://WORLD"]) == 1 && len(ranks["mpi://SELF"]) == c.Size(), "%v", ranks))...)
}

func TestSessionInfo(t *testing.T) {
	value := func(s *mpi.Session, key string) (string, error) {
		info, err := s.Info()
		if err != nil {
			return "", err
		}
		text, ok := info.Get(key)
		return text, check(ok, "no %s", key)
	}
	is := func(key, want string) func(p *mpi.Process, s *mpi.Session) error {
		return func(p *mpi.Process, s *mpi.Session) error {
			got, err := value(s, key)
			return errors.Join(err, check(got == want, "%s is %q", key, got))
		}
	}
	asking := func(kinds string) func(p *mpi.Process, s *mpi.Session) error {
		return func(p *mpi.Process, s *mpi.Session) error {
			info := &mpi.Info{}
			errs := []error{info.Set("mpi_memory_alloc_kinds", kinds), info.Set("no_such_hint", "x"), info.Set("thread_level", "none")}
			asked, err := p.OpenSession(info)
			errs = append(errs, err, info.Set("mpi_memory_alloc_kinds", "changed later"))
			got, err := value(asked, "mpi_memory_alloc_kinds")
			usual, errDefault := value(s, "mpi_memory_alloc_kinds")
			level, errLevel := value(asked, "thread_level")
			seen, errSeen := asked.Info()
			_, unknown := seen.Get("no_such_hint")
			return errors.Join(append(errs, err, errDefault, errLevel, errSeen, asked.Close(),
				check(got == "mpi,system,mpi:alloc_mem" && usual == "mpi,system", "asked %q, default %q", got, usual),
				check(level == "MPI_THREAD_MULTIPLE" && !unknown, "level %q, unknown hint %v", level, unknown))...)
		}
	}
	own := func(p *mpi.Process, s *mpi.Session) error {
		a, err := s.Info()
		b, errB := s.Info()
		return errors.Join(err, errB, check(a != b, "the same info"), a.Set("thread_level", "x"), a.Set("more", "y"),
			is("thread_level", "MPI_THREAD_MULTIPLE")(p, s), check(b.Len() == 2, "%d keys", b.Len()))
	}
	sessions(t, map[string]func(p *mpi.Process, s *mpi.Session) error{
		"S3-30": own,
		"S3-31": func(p *mpi.Process, s *mpi.Session) error {
			info, err := s.Info()
			return errors.Join(err, is("thread_level", "MPI_THREAD_MULTIPLE")(p, s), is("mpi_memory_alloc_kinds", "mpi,system")(p, s),
				check(info.Len() == 2, "%d hints", info.Len()))
		},
		"S3-32": is("mpi_memory_alloc_kinds", "mpi,system"),
		"S3-33": asking("cuda, mpi:alloc_mem ,rocm:device"),
		"S3-34": is("thread_level", "MPI_THREAD_MULTIPLE"),
		"S3-35": func(p *mpi.Process, s *mpi.Session) error {
			info, err := s.Info()
			return errors.Join(err, check(info != nil, "no info"))
		},
		"S3-36": own,
		"S3-37": asking("mpi:alloc_mem"),
		"S3-K2": func(p *mpi.Process, s *mpi.Session) error {
			return errors.Join(is("thread_level", "MPI_THREAD_MULTIPLE")(p, s), is("mpi_memory_alloc_kinds", "mpi,system")(p, s))
		},
	})
}

func TestPsetInfo(t *testing.T) {
	size := func(p *mpi.Process, s *mpi.Session) error {
		names, err := setNames(s)
		errs := []error{err}
		for _, name := range names {
			n, err := sizeOf(s, name)
			g, errGroup := s.Group(name)
			errs = append(errs, err, errGroup, check(g.Size() == n, "%s: a group of %d, mpi_size %d", name, g.Size(), n))
		}
		return errors.Join(errs...)
	}
	sessions(t, map[string]func(p *mpi.Process, s *mpi.Session) error{
		"S3-40": func(p *mpi.Process, s *mpi.Session) error {
			info, err := s.PsetInfo("mpi://SELF")
			if err != nil {
				return err
			}
			key, err := info.Nth(0)
			value, _ := info.Get(key)
			return errors.Join(err, check(info.Len() == 1 && key == "mpi_size" && value == "1", "%d keys, %s=%s", info.Len(), key, value))
		},
		"S3-41": size,
		"S3-42": size,
		"S3-43": func(p *mpi.Process, s *mpi.Session) error {
			a, err := s.PsetInfo("mpi://SELF")
			return errors.Join(err, a.Set("mpi_size", "7"), a.Delete("mpi_size"), size(p, s))
		},
		"S3-44": func(p *mpi.Process, s *mpi.Session) error {
			var errs []error
			for _, name := range []string{"", "none", "mpi://", "mpi://OTHER", "ibrun://rail/-1", "ocean\x00", strings.Repeat("x", 5000)} {
				info, err := s.PsetInfo(name)
				g, errGroup := s.Group(name)
				errs = append(errs, ofClass(err, mpi.ErrArg), ofClass(errGroup, mpi.ErrArg), check(info == nil && g == nil, "%q", name))
			}
			return errors.Join(errs...)
		},
	})
}

// TestPsetLost: a process is killed. The sets to which it belonged stay listed, and their use becomes an error.
func TestPsetLost(t *testing.T) {
	t.Attr("changes", "a rank is killed")
	for id, lost := range byName(map[string]func(s *mpi.Session, before *mpi.Group, c *mpi.Comm) error{
		"S3-07": func(s *mpi.Session, _ *mpi.Group, _ *mpi.Comm) error {
			_, err := s.Group("ocean")
			return ofClass(err, mpi.ErrProcFailed)
		},
		"S3-08": func(_ *mpi.Session, before *mpi.Group, c *mpi.Comm) error {
			_, err := mpi.CommFromGroup(before, "after", nil)
			return errors.Join(ofClass(err, mpi.ErrProcFailed), ofClass(c.Barrier(), mpi.ErrProcFailed))
		},
	}) {
		t.Run(id, func(t *testing.T) { killed(t, lost) })
	}
}

// killed has a process die among three once all have a communicator of the set ocean, which they are all in. The others
// learn of it by a barrier, and then lost is called.
func killed(t *testing.T, lost func(s *mpi.Session, before *mpi.Group, c *mpi.Comm) error) {
	const n, victim = 3, 1
	t.Attr("world", fmt.Sprintf("%d ranks on 1 nodes", n))
	hub := mem.NewHub(n)
	var through sync.WaitGroup // communication before the failure
	through.Add(n)
	survive := func(rank int) error {
		s, g, c, err := joinSession(hub, rank, n)
		if through.Done(); err != nil {
			return err
		}
		if rank == victim {
			through.Wait()
			hub.Fail(rank, errors.New("killed"))
			return nil
		}
		before, err := setNames(s)
		errs := []error{err, ofClass(c.Barrier(), mpi.ErrProcFailed), lost(s, g, c)}
		defer func() { // the communicator is alive, and one of its processes is not
			if err := errors.Join(ofClass(s.Close(), mpi.ErrProcFailed), ofClass(s.Close(), mpi.ErrSession)); err != nil {
				t.Errorf("rank %d closes: %v", rank, err)
			}
		}()
		after, err := setNames(s)
		return errors.Join(append(errs, err, check(slices.Equal(before, after), "%q became %q", before, after))...)
	}
	var all sync.WaitGroup
	for rank := range n {
		all.Go(func() {
			if err := survive(rank); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	all.Wait()
}

// joinSession joins a world, and creates a communicator of the set ocean.
func joinSession(hub *mem.Hub, rank, n int) (*mpi.Session, *mpi.Group, *mpi.Comm, error) {
	p, err := mpi.Join(bootstrap.WithProcess(context.Background(), processOf(hub, rank, n)), nil)
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := p.OpenSession(nil)
	if err != nil {
		return nil, nil, nil, err
	}
	g, err := s.Group("ocean")
	if err != nil {
		return nil, nil, nil, err
	}
	c, err := mpi.CommFromGroup(g, "before", nil)
	if err == nil {
		err = checkUsable(c)
	}
	return s, g, c, err
}

// processOf returns the description of a process whose world is connected only by memory of this process.
func processOf(hub *mem.Hub, rank, n int) *bootstrap.Process {
	nothing := func() error { return nil }
	set := bootstrap.Pset{Name: "ocean"}
	for r := range n {
		set.Ranks = append(set.Ranks, r)
	}
	return &bootstrap.Process{
		Rank: rank, Size: n, Oversubscribed: true, Started: nothing, Finalized: nothing,
		Open: func(ctx context.Context, c *fabric.Config, _ bootstrap.Thresholds) (fabric.Domain, error) {
			return hub.Transport().Open(ctx, c)
		},
		Nodes: func() ([]int, error) { return make([]int, n), nil },
		Psets: func() ([]bootstrap.Pset, error) { return []bootstrap.Pset{set}, nil },
	}
}
