package decide

// hold does nothing about a job without replicas, whose pods stay, until its deadline.
func (s *steps) hold() {
	if s.StartTime != nil {
		s.wakeAtDeadline()
	}
}
