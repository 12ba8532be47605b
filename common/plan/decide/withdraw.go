package decide

// evictFor stops all replicas if the action requires that.
func (s *steps) evictFor(c choice) {
	if c.action == Withdraw {
		s.withdraw(c.why)
	}
	if c.action == GiveBack {
		s.giveBack()
	}
}

// withdraw stops all replicas of a job whose admission is withdrawn. The job waits for its next admission. why is why
// the pods must go.
func (s *steps) withdraw(why string) {
	s.StartTime, s.Withdrawn = nil, why
	s.evict(why)
}

// evict stops all replicas. As a pause, it begins a new attempt, so that all pods belong to an earlier one and their
// failures are ignored. The status is written before the first pod is deleted.
func (s *steps) evict(why string) {
	s.Counts.Evictions++
	s.View = s.InNewAttempt(s.Counts.JobAttempt(), nil)
	s.happens(Evicts{Why: why})
}
