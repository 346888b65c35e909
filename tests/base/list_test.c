/* The ring of links. */
#include "base/list.h"

#include "tests/support/test.h"

struct item {
	int value;
	struct list link;
};

/* The list holds exactly `values`, read both ways. */
static void
expect_items(struct list *head, int n, const int *values)
{
	struct list *at = head->next;

	for (int i = 0; i < n; i++, at = at->next) {
		EXPECT_EQ(
		    CONTAINER_OF(at, struct item, link)->value, values[i]);
		EXPECT_EQ(at->next->prev, at);
		EXPECT_EQ(at->prev->next, at);
	}
	EXPECT_EQ(at, head);
	EXPECT_EQ(list_empty(head), n == 0);
}

TEST(a_new_list_is_empty)
{
	struct list head;

	list_init(&head);
	EXPECT(list_empty(&head));
	EXPECT_EQ(head.next, &head);
	EXPECT_EQ(head.prev, &head);
}

TEST(links_keep_the_order_they_are_put_in)
{
	struct list head;
	struct item items[4] = { { 0, { 0 } }, { 1, { 0 } }, { 2, { 0 } },
		{ 3, { 0 } } };

	list_init(&head);
	list_push_back(&head, &items[1].link);
	list_push_back(&head, &items[3].link);
	list_push_front(&head, &items[0].link);
	list_insert_before(&items[3].link, &items[2].link);
	expect_items(&head, 4, (const int[]){ 0, 1, 2, 3 });
}

TEST(a_link_taken_out_points_to_itself)
{
	struct list head;
	struct item items[3] = { { 0, { 0 } }, { 1, { 0 } }, { 2, { 0 } } };

	list_init(&head);
	for (int i = 0; i < 3; i++)
		list_push_back(&head, &items[i].link);
	list_remove(&items[1].link);
	EXPECT(list_empty(&items[1].link));
	expect_items(&head, 2, (const int[]){ 0, 2 });

	/* Removing it again does no harm. */
	list_remove(&items[1].link);
	list_remove(&items[0].link);
	list_remove(&items[2].link);
	expect_items(&head, 0, NULL);
}
