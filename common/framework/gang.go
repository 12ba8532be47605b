package framework

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
)

// Gang is the replicas of one job and where they find each other.
type Gang struct {
	// Namespace, Job and UID identify the job. The headless Service that gives the members their names is named like it.
	Namespace string
	Job       string
	UID       types.UID
	// Attempt is how often every member was restarted together, or taken away by a pause.
	Attempt int32
	// ClusterDomain is the DNS domain of the cluster, such as cluster.local.
	ClusterDomain string
	// Image of the controller, which helper containers run.
	Image string
	// AllOrNothing says that the members are scheduled as a gang: all that the job needs at once, or none.
	AllOrNothing bool
	// Members in rank order; the first is the leader.
	Members []Member
}

// Member is one replica of a gang.
type Member struct {
	// Role is what the member is a replica of.
	Role Role
	// Index of the member among those of its role.
	Index int32
	// Rank of the member among all, from 0; the leader's is 0.
	Rank int32
	// Name of the member, which is its pod's name and its host name.
	Name string
}

// NewGang lists the members of a job: the roles in their order, each by index. The first role that has replicas leads.
func NewGang(namespace, job string, uid types.UID, clusterDomain string, attempt int32, roles []Role) Gang {
	gang := Gang{Namespace: namespace, Job: job, UID: uid, ClusterDomain: clusterDomain, Attempt: attempt}
	for _, role := range roles {
		list := indices(role)
		gang.Members = slices.Grow(gang.Members, len(list))
		for _, index := range list {
			gang.Members = append(gang.Members, Member{
				Role:  role,
				Index: index,
				Rank:  int32(len(gang.Members)), //nolint:gosec // a job has at most 2,000 replicas
				Name:  MemberName(job, role.Type, index),
			})
		}
	}
	return gang
}

func indices(role Role) []int32 {
	if role.Indices != nil {
		return role.Indices
	}
	list := make([]int32, role.Replicas)
	for i := range list {
		list[i] = int32(i)
	}
	return list
}

// MemberName returns the name of a replica. It is deterministic, so that a second pod for the same replica cannot
// exist.
func MemberName(job, roleType string, index int32) string {
	return job + "-" + roleType + "-" + strconv.Itoa(int(index))
}

// Leader returns the member whose outcome is the job's. A gang without members has none; see Members.
func (g Gang) Leader() Member {
	return g.Members[0]
}

// FQDN returns the fully qualified domain name of a member. It resolves as soon as the member's pod has an address.
func (g Gang) FQDN(m Member) string {
	return m.Name + "." + g.Job + "." + g.Namespace + ".svc." + g.ClusterDomain
}
