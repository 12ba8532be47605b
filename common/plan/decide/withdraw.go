package decide

// evictFor stops all replicas if the action is Withdraw or GiveBack.
func (s *steps) evictFor(c choice) {
	if c.action == Withdraw {
		s.withdraw(c.why)
	}
	if c.action == GiveBack {
		s.giveBack()
	}
}

// withdraw stops all replicas of a job whose admission is withdrawn. The job waits for its next admission. The
// parameter why is the reason of the withdrawal.
func (s *steps) withdraw(why string) {
	s.StartTime, s.Withdrawn = nil, why
	s.evict(why)
}

// evict stops all replicas. Like a pause, it begins a new attempt, so that all present pods belong to an earlier
// attempt and their failures are ignored. The status is written before the first pod is deleted.
func (s *steps) evict(why string) {
	s.Counts.Evictions++
	s.View = s.InNewAttempt(s.Counts.JobAttempt(), nil)
	s.happens(Evicts{Why: why})
}
