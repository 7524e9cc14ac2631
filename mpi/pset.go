package mpi

// NumPsets returns the number of process sets to which this process belongs. It never decreases. No hints are defined
// yet. MPI-5.0 §11.3.2.
func (s *Session) NumPsets(_ *Info) (int, error) {
	n, err := s.core().NumPsets()
	return n, public(err)
}

// NthPset returns the name of process set n, from 0, of those to which this process belongs. The name never changes
// and has 1 to MaxPsetName bytes. For any other n it fails with ErrArg. No hints are defined yet. MPI-5.0 §11.3.2.
func (s *Session) NthPset(_ *Info, n int) (string, error) {
	name, err := s.core().NthPset(n)
	return name, public(err)
}

// CopyNthPset copies the name that NthPset returns to a buffer, as much as fits. It returns the length of the whole
// name. The buffer may be nil. On an error the buffer is not changed. MPI-5.0 §11.3.2.
func (s *Session) CopyNthPset(info *Info, n int, buf []byte) (length int, err error) {
	length, err = s.core().CopyNthPset(n, buf)
	return length, public(err)
}

// PsetInfo describes a process set in a new Info: mpi_size is the number of its processes. The name may be one that
// NthPset has returned, or another that the program knows. An unknown name fails with ErrArg. MPI-5.0 §11.3.4.
func (s *Session) PsetInfo(name string) (*Info, error) { return info(s.core().PsetInfo(name)) }
