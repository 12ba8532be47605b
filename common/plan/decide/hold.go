package decide

// hold keeps the pods of a job without replicas.
func (s *steps) hold() {
	if s.StartTime != nil {
		s.wakeAtDeadline()
	}
}
