package framework

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Peers are the replicas of one job, with the names under which they find each other.
type Peers struct {
	// Namespace, Job and UID identify the job. The headless Service that gives the members their DNS names has the name
	// of the job.
	Namespace string
	Job       string
	UID       types.UID
	// Attempt is how often the pods of all members have been replaced together: after restarts, pauses and evictions.
	Attempt int32
	// ClusterDomain is the DNS domain of the cluster, such as cluster.local.
	ClusterDomain string
	// Image is the image of the controller. Helper containers run it.
	Image string
	// HelperResources are the requests and limits of helper containers that cannot have the resources of the main
	// container: see addHelper. Empty means none.
	HelperResources corev1.ResourceList
	// IsGang reports whether the members are a gang: either all that the job needs are scheduled, or none.
	IsGang bool
	// Members are in rank order. The first is the leader.
	Members []Member
}

// Member is one replica of a job.
type Member struct {
	// Role is the role of the member.
	Role Role
	// Index is the number of the member within its role.
	Index int32
	// Rank is the number of the member among all members, from 0. The leader has rank 0.
	Rank int32
	// Name is the name of the member's pod and its host name.
	Name string
}

// NewPeers returns the peers of a job. The members are in the order of their roles. The members of one role are in
// the order of their indices. The leader is the first replica of the first role that has replicas.
func NewPeers(namespace, job string, uid types.UID, clusterDomain string, attempt int32, roles []Role) Peers {
	peers := Peers{Namespace: namespace, Job: job, UID: uid, ClusterDomain: clusterDomain, Attempt: attempt}
	for _, role := range roles {
		list := indices(role)
		peers.Members = slices.Grow(peers.Members, len(list))
		for _, index := range list {
			peers.Members = append(peers.Members, Member{
				Role:  role,
				Index: index,
				Rank:  int32(len(peers.Members)), //nolint:gosec // a job has at most 2,000 replicas
				Name:  MemberName(job, role.Type, index),
			})
		}
	}
	return peers
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

// MemberName returns the name of a replica. The name is deterministic, so that a replica cannot have two pods.
func MemberName(job, roleType string, index int32) string {
	return job + "-" + roleType + "-" + strconv.Itoa(int(index))
}

// Leader returns the member whose outcome is the outcome of the job. It panics if there are no members.
func (p Peers) Leader() Member {
	return p.Members[0]
}

// FQDN returns the fully qualified domain name of a member. The name resolves as soon as the member's pod has an IP
// address.
func (p Peers) FQDN(m Member) string {
	return m.Name + "." + p.Job + "." + p.Namespace + ".svc." + p.ClusterDomain
}
