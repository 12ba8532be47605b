package decide

// hold keeps the pods of a job that has no replicas. It only requeues a started job at its deadline.
func (s *steps) hold() {
	if s.StartTime != nil {
		s.requeueAt(s.Deadline())
	}
}
