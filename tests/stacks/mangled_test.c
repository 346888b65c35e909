/*
 * Which mangled names are short enough to be demangled.
 */
#include <stdio.h>
#include <string.h>

#include "stacks/mangled.h"
#include "tests/support/test.h"

/* A function whose argument types are A<B<int>, B<int>>, and then always A of
 * the last type twice. Each doubles the length of the text. */
static void
write_doubling(char *to, size_t size, int levels)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t length = (size_t)snprintf(to, size, "_Z1f1BIiE1AIS0_S0_E");

	for (int i = 1; i < levels; i++)
		length += (size_t)snprintf(to + length, size - length,
		    "S1_IS%c_S%c_E", digits[i + 1], digits[i + 1]);
}

TEST(a_name_whose_parts_double_often_is_not_bounded)
{
	char name[512];

	write_doubling(name, sizeof(name), 5);
	EXPECT(mangled_name_is_bounded(name));
	write_doubling(name, sizeof(name), 22);
	EXPECT_EQ(strlen(name), 250);
	EXPECT(!mangled_name_is_bounded(name));
}

/* Each level contains the last one, and refers to it. */
TEST(a_name_whose_nested_parts_double_is_not_bounded)
{
	enum { LEVELS = 26 };
	char name[512] = "_Z1f";
	size_t length = strlen(name);

	for (int i = 0; i < LEVELS; i++)
		length += (size_t)snprintf(
		    name + length, sizeof(name) - length, "1AI");
	length += (size_t)snprintf(name + length, sizeof(name) - length, "i");
	for (int i = 0; i < LEVELS; i++)
		length += (size_t)snprintf(name + length, sizeof(name) - length,
		    i == 0 ? "iE" : "S%c_E", "0123456789ABCDEFGHIJKLMNOP"[i]);
	EXPECT(!mangled_name_is_bounded(name));
}

/* Arguments of a template that are long and referred to by a part that doubles.
 */
TEST(a_name_whose_long_arguments_double_is_not_bounded)
{
	char name[512];
	size_t length;

	write_doubling(name, sizeof(name), 10);
	EXPECT(mangled_name_is_bounded(name));
	length = strlen(name);
	for (int i = 0; i < 8; i++)
		length += (size_t)snprintf(name + length, sizeof(name) - length,
		    "S1_I%sE",
		    i == 0     ? "T_T_" :
			i == 1 ? "SB_SB_" :
				 "SC_SC_");
	EXPECT(!mangled_name_is_bounded(name));
}

/* A demangler may keep 32 bits of a number, and take this one for S0_. */
TEST(a_number_that_is_cut_may_stand_for_any_part)
{
	char name[1024] = "_Z1f1BIiE1AIS1Z141Z4_S1Z141Z4_E";
	size_t length = strlen(name);

	for (int i = 0; i < 22; i++)
		length += (size_t)snprintf(name + length, sizeof(name) - length,
		    "S1_IS1Z141Z4_S1Z141Z4_E");
	EXPECT(!mangled_name_is_bounded(name));
}

TEST(a_name_that_is_too_long_is_not_bounded)
{
	char name[1026] = "_Z1f";

	memset(name + 4, 'i', 1020);
	EXPECT(mangled_name_is_bounded(name));
	name[1024] = 'i';
	EXPECT(!mangled_name_is_bounded(name));
}

/* Names of libstdc++, libtorch and of a program with variants. */
TEST(long_names_of_programs_are_bounded)
{
	static const char *const names[] = {
		"_Z1fv",
		"_Z13LIST_OF_STATES_AND_TESTS_IN_CONSTANTS_v",
		"_ZN5torch3jit10tensorexpr16TensorExprKernelC1ERKSt10shared"
		"_ptrINS0_5GraphEERKNSt7__cxx1112basic_stringIcSt11char_tra"
		"itsIcESaIcEEESt13unordered_mapIN3c106SymbolESt8functionIFN"
		"S1_6TensorERKSt6vectorINSH_7variantIJNS1_9BufHandleENS1_9V"
		"arHandleEdlbSL_ISN_SaISN_EESL_IdSaIdEESL_IlSaIlEESD_NSH_9m"
		"onostateEEEESaISW_EERKSL_INS1_10ExprHandleESaIS11_EES15_RK"
		"NSH_8optionalINSH_10ScalarTypeEEENSH_6DeviceEEESt4hashISI_"
		"ESt8equal_toISI_ESaISt4pairIKSI_S1D_EEESU_bSG_IPKNS0_5Valu"
		"eESL_INS0_11StrideInputESaIS1Q_EES1E_IS1P_ES1G_IS1P_ESaIS1"
		"I_IKS1P_S1S_EEE",
		"_ZN5torch3jit10tensorexpr6ReduceISt8functionIFNS1_10ExprHa"
		"ndleERKSt6vectorINS1_9VarHandleESaIS6_EEEEEENS1_6TensorERK"
		"NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKS5_I"
		"S4_SaIS4_EEN3c108optionalISN_EERKNS1_7ReducerERKT_SP_",
		"_ZNSt10_HashtableI10grpc_sliceSt4pairIKS0_PKSt6vectorISt10"
		"unique_ptrIN9grpc_core19ServiceConfigParser12ParsedConfigE"
		"St14default_deleteIS7_EESaISA_EEESaISF_ENSt8__detail10_Sel"
		"ect1stESt8equal_toIS0_ENS5_9SliceHashENSH_18_Mod_range_has"
		"hingENSH_20_Default_ranged_hashENSH_20_Prime_rehash_policy"
		"ENSH_17_Hashtable_traitsILb1ELb0ELb1EEEE9_M_rehashEmRKm",
		"_ZNSt6vectorISt5tupleIJNSt7__cxx1112basic_stringIcSt11char"
		"_traitsIcESaIcEEESt7variantIJidS6_S_IS6_SaIS6_EESt3mapIS6_"
		"S_IdSaIdEESt4lessIS6_ESaISt4pairIKS6_SC_EEEEESt10unique_pt"
		"rI1XSt14default_deleteISM_EEEESaISQ_EE12emplace_backIJRA2_"
		"KcSK_SP_EEERSQ_DpOT_",
		"_ZNKSt8__detail9__variant12_Multi_arrayIPFNS0_21__deduce_v"
		"isit_resultIvEEOZ4mainEUlOT_OT0_E0_RSt7variantIJidNSt7__cx"
		"x1112basic_stringIcSt11char_traitsIcESaIcEEESt6vectorISG_S"
		"aISG_EESt3mapISG_SH_IdSaIdEESt4lessISG_ESaISt4pairIKSG_SM_"
		"EEEEESV_EJEE9_M_accessEv",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!mangled_name_is_bounded(names[i]))
			FAIL("%s", names[i]);
}
