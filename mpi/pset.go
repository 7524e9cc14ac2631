package mpi

// NumPsets returns the number of process sets to which this process belongs. It never decreases. No hints are defined
// yet. MPI-5.0 §11.3.2.
func (s *Session) NumPsets(_ *Info) (int, error) {
	return s.core().Psets().Len(), result(s.core(), "Session.NumPsets", nil)
}

// NthPset returns the name of process set n, from 0, of those to which this process belongs. The name never changes
// and has 1 to MaxPsetName bytes. For any other n it fails with ErrArg. No hints are defined yet. MPI-5.0 §11.3.2.
func (s *Session) NthPset(_ *Info, n int) (string, error) {
	name, err := s.core().Psets().Nth(n)
	return name, result(s.core(), "Session.NthPset", err)
}

// CopyNthPset copies the name that NthPset returns to a buffer, as much as fits. It returns the length of the whole
// name. The buffer may be nil. On an error the buffer is not changed. MPI-5.0 §11.3.2.
func (s *Session) CopyNthPset(info *Info, n int, buf []byte) (length int, err error) {
	name, err := s.NthPset(info, n)
	copy(buf, name)
	return len(name), err
}

// PsetInfo describes a process set in a new Info: mpi_size is the number of its processes. The name may be one that
// NthPset has returned, or another that the program knows. An unknown name fails with ErrArg. MPI-5.0 §11.3.4.
func (s *Session) PsetInfo(name string) (*Info, error) {
	i, err := s.core().Psets().Info(name)
	return (*Info)(i), result(s.core(), "Session.PsetInfo", err)
}
